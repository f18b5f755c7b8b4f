"""Agents that send their whole history every turn: how much of it is computed again, and what caching saves.

    bench/agent_loop.py TANDEM SOURCE_DIR [--sessions 8] [--turns 30] [--threads 2] [--max-tokens 20]

Starts `tandem serve` on the bundled model twice, with the prefix cache and without, and plays the same sessions
against both: a shared system prompt with tools, then turns of about 150 new tokens, the previous answer sent
back with its reasoning. Standard library only. Prints one JSON object; in it

  work_ratio   prompt tokens computed from the second turn on, by new tokens: those that neither the previous
               prompt nor its answer had. 1 is perfect.
  time_ratio   time of all sessions without the cache, by that with it
"""
import argparse
import concurrent.futures
import json
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "e2e"))
from serving import Server  # noqa: E402

WORDS = ("sun moon tree river stone bird fish house road hill cloud rain snow wind fire lamp book chair table "
         "door key ring coin boat bread milk salt apple pear plum").split()
SYSTEM_WORDS, TURN_WORDS = 190, 85
TOOLS = [{"type": "function", "function": {
    "name": name, "description": "Work with one file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}}
    for name in ("read_file", "write_file")]


def text(seed, words):
    chosen = random.Random(seed)
    return " ".join(chosen.choice(WORDS) for _ in range(words))


class Session:
    """One agent. Each turn appends to the history what it was answered and what it found."""

    def __init__(self, number):
        self.number = number
        self.messages = [{"role": "system", "content": text("system", SYSTEM_WORDS)},
                         {"role": "user", "content": text("%d" % number, TURN_WORDS)}]
        self.usage = []

    def turn(self, server, max_tokens):
        answer = server.chat(self.messages, tools=TOOLS, temperature=0, max_tokens=max_tokens)
        self.usage.append(answer["usage"])
        message = answer["choices"][0]["message"]
        found = text("%d %d" % (self.number, len(self.usage)), TURN_WORDS)
        calls = message.get("tool_calls", [])
        self.messages.append(message)
        self.messages += [{"role": "tool", "tool_call_id": call["id"], "content": found} for call in calls]
        if not calls:
            self.messages.append({"role": "user", "content": found})


def play(server, sessions, turns, max_tokens):
    """The sessions, side by side; and the seconds that they took."""
    agents = [Session(i) for i in range(sessions)]

    def run(agent):
        for _ in range(turns):
            agent.turn(server, max_tokens)

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(sessions) as pool:
        list(pool.map(run, agents))
    return agents, time.monotonic() - begin


def work(agents):
    """Of all turns but the first: (tokens computed, new tokens, prompts that began otherwise than the last ended)."""
    computed = new = departures = 0
    for agent in agents:
        for before, now in zip(agent.usage, agent.usage[1:]):
            computed += now["prompt_tokens"] - now["prompt_tokens_details"]["cached_tokens"]
            new += now["prompt_tokens"] - before["prompt_tokens"] - before["completion_tokens"]
            departures += now["prompt_tokens_details"]["cache_miss"] == "differs"
    return computed, new, departures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tandem")
    parser.add_argument("source")
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--max-tokens", type=int, default=20)
    options = parser.parse_args()
    report = vars(options) | {"tandem": None, "source": None}
    del report["tandem"], report["source"]
    for name, flags in (("cached", ()), ("uncached", ("--disable-radix-cache",))):
        with Server(*flags, threads=options.threads) as server:
            agents, seconds = play(server, options.sessions, options.turns, options.max_tokens)
        computed, new, departures = work(agents)
        report[name] = {"seconds": round(seconds, 2), "computed_tokens": computed, "new_tokens": new,
                        "work_ratio": round(computed / new, 4), "departures": departures,
                        "last_prompt_tokens": max(agent.usage[-1]["prompt_tokens"] for agent in agents)}
    report["work_ratio"] = report["cached"]["work_ratio"]
    report["time_ratio"] = round(report["uncached"]["seconds"] / report["cached"]["seconds"], 2)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
