"""Load, aborts and limits over HTTP. Names begin with the case they show."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import threading
import time
import unittest

from cache_checks import Exact, cached, check_leaks, grid_and_chunk, metrics, reference, rss_bytes, wait_idle
from serving import STORY, SUM, Server, main

DEMO = pathlib.Path(sys.argv[2]).resolve() / "models" / "demo"
# Keeps the one place of a server busy: the model thinks about it for long.
LONG = dict(temperature=0, max_tokens=2000)


def user(content):
    return [{"role": "user", "content": content}]


@contextlib.contextmanager
def model_of_context(tokens):
    """The bundled model, told to have a shorter context."""
    with tempfile.TemporaryDirectory() as folder:
        for file in DEMO.iterdir():
            if file.name != "config.json":
                os.symlink(file, os.path.join(folder, file.name))
        config = json.loads((DEMO / "config.json").read_text())
        config["text_config"].update(max_position_embeddings=tokens, model_max_length=tokens)
        with open(os.path.join(folder, "config.json"), "w") as out:
            json.dump(config, out)
        yield folder


class Aborts(unittest.TestCase):
    def test_c26_abort_in_a_middle_chunk(self):
        """Scale: 5 prompts of 3P tokens and 4 rounds instead of 20 of 6P and 50, greedy and exact; each socket
        is closed at a random time of the prefill."""
        with Server("--precision", "exact") as server:
            exact, (_, chunk) = Exact(server), grid_and_chunk(server)
            shuffle = random.Random(26)
            # The arena's pages become resident when they are first used, which is no leak: more at once
            # than the rounds ever run, and nothing shared.
            with concurrent.futures.ThreadPoolExecutor(10) as pool:
                list(pool.map(lambda i: server.chat(Exact.words(3 * chunk), max_tokens=4,
                                                    cache_salt="warm %d" % i, **Exact.FIELDS), range(10)))
            wait_idle(server)
            check_leaks(self, server)
            before = rss_bytes(server)
            for round_ in range(4):
                streams = []
                for i in range(5):
                    # All begin alike, so that what one leaves behind is what the next would start from.
                    prompt = Exact.words(3 * chunk - 5 * i)
                    connection = server.connect()
                    connection.request("POST", "/v1/chat/completions", json.dumps(
                        dict(messages=prompt, stream=True, max_tokens=4, **Exact.FIELDS)),
                        {"Content-Type": "application/json"})
                    streams.append(connection)
                shuffle.shuffle(streams)
                for connection in streams:
                    time.sleep(shuffle.random() * 0.15)
                    connection.close()
                wait_idle(server)
                # What the aborted ones left is right.
                prompt = exact.prompt(chunk + 7 * round_)
                fields = dict(Exact.FIELDS, max_tokens=4, logprobs=True)
                self.assertEqual(server.chat(prompt, **fields)["choices"],
                                 reference(server, prompt, **fields)["choices"])
                check_leaks(self, server)
            self.assertLess(abs(rss_bytes(server) - before), 0.01 * before + (1 << 20))
            cancelled = metrics(server)['tandem_requests_total{finish="cancelled"}']
            self.assertGreater(cancelled, 0)


class Growth(unittest.TestCase):
    def test_c13_snapshot_growth(self):
        """Scale: 4 sessions of 15 turns, 60 tokens each, instead of 60 turns to 100K tokens. The speed of a
        tiny prompt is the best of 5, measured in turn with a server that is as at the start, since the machine
        may be busier than then; and may be a half less: it may be busy now."""
        tiny = dict(temperature=0, max_tokens=24, reasoning_effort="none")

        def tiny_speed(of):
            return of.chat(user("Hello!"), **tiny)["timings"]["decode_tokens_per_s"]

        with Server() as server, Server() as at_start:
            tiny_speed(server)
            base = wait_idle(server)
            sessions = [[] for _ in range(4)]
            for turn in range(15):
                for i, messages in enumerate(sessions):
                    messages += user("%d/%d " % (i, turn) + "tell me more, please. " * 8)
                    answer = server.chat(messages, temperature=0, max_tokens=8)
                    messages.append(dict(answer["choices"][0]["message"]))
                    if turn:
                        self.assertGreater(cached(answer), 0)
            end = wait_idle(server)
            pairs = [(tiny_speed(server), tiny_speed(at_start)) for _ in range(5)]
            self.assertGreater(max(now for now, _ in pairs), max(start for _, start in pairs) / 2)
            used = sum(end['tandem_mem_arena_bytes{kind="%s"}' % kind] for kind in ("state", "kv"))
            self.assertLessEqual(used, end["tandem_mem_budget_bytes"])
            # A turn leaves a bounded number of states: before its end, at its end, at the end of its answer,
            # and where it departs from what was cached.
            states = end['tandem_state_slots{owner="tree"}'] - base['tandem_state_slots{owner="tree"}']
            self.assertGreater(states, 0)
            self.assertLessEqual(states, 4 * 15 * 4)
            self.assertEqual(end['tandem_cache_entries{kind="state"}'], end['tandem_state_slots{owner="tree"}'])
            check_leaks(self, server)


class Limits(unittest.TestCase):
    def test_c32_over_long_prompt(self):
        """Context of 512 tokens. Rule: a prompt that leaves no room for a token is refused, with both numbers;
        max_tokens beyond the context is cut to it, which finish_reason `length` shows."""
        limit = 512
        with model_of_context(limit) as folder, Server(folder) as server:
            exact = Exact(server)
            fields = dict(Exact.FIELDS, max_tokens=100)
            for tokens in (limit + 1, limit):
                status, _, body = server.post(dict(messages=exact.prompt(tokens), **fields))
                self.assertEqual((status, body["error"]["code"]), (400, "context_length_exceeded"))
                self.assertIn("%d tokens" % tokens, body["error"]["message"])
                self.assertIn("holds %d" % limit, body["error"]["message"])
            for tokens in (limit - 1, limit - 20):
                answer = server.chat(exact.prompt(tokens), **fields)
                choice, usage = answer["choices"][0], answer["usage"]
                self.assertEqual(usage["prompt_tokens"], tokens)
                if choice["finish_reason"] == "length":
                    self.assertEqual(usage["total_tokens"], limit)
                else:
                    self.assertLess(usage["total_tokens"], limit)
            self.assertEqual(server.chat(exact.prompt(limit - 1), **fields)["choices"][0]["finish_reason"],
                             "length")
            server.chat(SUM, max_tokens=1)
            check_leaks(self, server)

    def test_c37_overload(self):
        """Ten times the queue limit at once. Full size for a queue of 3."""
        queue = 3
        with Server("--max-running", 1, "--max-queued", queue) as server:
            gate = threading.Barrier(10 * queue)

            def ask():
                gate.wait()
                begin = time.monotonic()
                status, headers, body = server.post({"messages": SUM, "temperature": 0})
                return status, headers, body, time.monotonic() - begin

            with concurrent.futures.ThreadPoolExecutor(10 * queue) as pool:
                asks = [pool.submit(ask) for _ in range(10 * queue)]
                self.assertEqual(server.request("GET", "/health")[0], 200)
                answers = [future.result() for future in asks]
            served = [body for status, _, body, _ in answers if status == 200]
            refused = [(headers, took) for status, headers, _, took in answers if status == 429]
            self.assertEqual(len(served) + len(refused), 10 * queue)
            self.assertGreaterEqual(len(served), 1 + queue)
            self.assertGreater(len(refused), 0)
            for body in served:
                self.assertEqual(body["choices"][0]["message"]["content"], "7703")
            for headers, _ in refused:
                self.assertEqual(headers["Retry-After"], "1")
            self.assertEqual(server.request("GET", "/health")[0], 200)
            check_leaks(self, server)


class Draining(unittest.TestCase):
    def five_open_five_queued(self, server):
        streams = []
        for _ in range(5):
            streams.append(server.open_stream(SUM, temperature=0))
            next(iter(streams[-1]))
        return streams + [server.open_stream(SUM, temperature=0) for _ in range(5)]

    def test_c38_drain(self):
        """5 streams open, 5 queued. Full size."""
        with Server("--max-running", 5) as server:
            streams = self.five_open_five_queued(server)
            server.signal(signal.SIGTERM)
            while server.request("GET", "/health")[0] == 200:
                pass
            status, headers, _ = server.post({"messages": STORY})
            self.assertEqual((status, headers["Retry-After"]), (503, "1"))
            for stream in streams:
                content = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in stream)
                self.assertEqual(content, "7703")
                stream.leave()
            self.assertEqual(server.exit_code(), 0)

    def test_c38_a_second_signal_ends_fast(self):
        with Server("--max-running", 5, "--drain-timeout", 3600) as server:
            streams = [server.open_stream(STORY, n=8, **LONG) for _ in range(10)]
            server.signal(signal.SIGTERM)
            time.sleep(2)
            begin = time.monotonic()
            server.signal(signal.SIGTERM)
            self.assertEqual(server.exit_code(), -signal.SIGTERM)
            self.assertLess(time.monotonic() - begin, 5)
            for stream in streams:
                stream.leave()


if __name__ == "__main__":
    main()
