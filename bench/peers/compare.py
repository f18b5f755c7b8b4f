"""llama.cpp and Tandem on the same weights and tokens, in turn; prints by what factor Tandem is faster.

    bench/peers/compare.py [CHECKPOINT ...] [--rounds 5] [--build build/release] [--out FILE.json]

CHECKPOINT is a Kimi K3 folder, by default the bundled model; or a configuration, NAME.config.json, of which
`tandem make-random` then makes a checkpoint. Installs the peer from npm and converts the checkpoint into
build/peers/ if that is not done yet. Needs Node 20, numpy and, in the build folder, `ninja model_jobs tandem`.

Each measurement runs with 1 and with 2 threads on both sides, one side after the other, in rounds; a round's ratio
is the peer's best seconds by Tandem's best. What else the machine does falls on both; the table has the median of
the rounds and their extremes.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
WORK = SOURCE / "build" / "peers"
GOLDEN = SOURCE / "tests" / "data" / "golden" / "demo_golden.json"
THREADS = (1, 2)
GREEDY_TOKENS = 48
# Standard deviations of the logits, in the median of the prompts. Wrong weights put it at about 3. Rounding
# moves a single prompt by that much, too, where it flips a near tie of a router, but not most of them.
LARGEST_GAP = 1.0


class Side:
    """A program that answers jobs, lines of JSON, one by one. Use as a context manager."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.about = self.answer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"compare.py: {self.name} ended early, with exit code {self.process.wait()}")
        return json.loads(line)

    def run(self, **job):
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return self.answer()


def decode(batch, context, steps):
    return {"kind": "decode", "batch": batch, "context": context, "steps": steps}, batch * steps


def prefill(prompt):
    return {"kind": "prefill", "prompt": prompt}, prompt


# What is measured: a row's name, the job, the tokens that it computes.
MEASUREMENTS = [
    ("prefill 512", *prefill(512)),
    ("prefill 2,048", *prefill(2048)),
    ("decode, batch 1", *decode(1, 256, 64)),
    ("decode, 8 together", *decode(8, 256, 24)),
    ("decode, 32 together", *decode(32, 256, 12)),
    ("decode at 16k", *decode(1, 16384, 32)),
]
SHORT, LONG = "decode, batch 1", "decode at 16k"  # a token's time at 16k is compared with that at 256


def newer(target, *sources):
    return target.exists() and all(target.stat().st_mtime >= s.stat().st_mtime for s in sources)


def install_peer():
    """The folder with the packages, installed as the lock file says."""
    folder = WORK / "npm"
    done = folder / "node_modules" / ".package-lock.json"
    if not newer(done, HERE / "package-lock.json"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json", ".npmrc"):
            (folder / name).write_bytes((HERE / name).read_bytes())
        # Without the optional ones: those are hundreds of megabytes for GPUs and other systems, and `npm ci` would
        # insist on every one of them. `npm install` takes the versions of the lock file, too.
        subprocess.run(["npm", "install", "--omit=optional", "--no-save", "--silent"], cwd=folder, check=True)
        done.touch()
    return folder / "node_modules"


def checkpoint_of(argument, build):
    """A checkpoint folder; made with random weights where the argument is a configuration."""
    path = pathlib.Path(argument)
    if path.is_dir():
        return path.resolve()
    folder = WORK / path.name.removesuffix(".json").removesuffix(".config")
    if not newer(folder / "config.json", path):
        subprocess.run([build / "apps/tandem/tandem", "make-random", path, folder], check=True)
    return folder


def convert(checkpoint):
    """The GGUF file of a checkpoint folder, made if it is not there, and the folder of kept states."""
    folder = WORK / ("gguf-" + checkpoint.name)
    file = folder / "model.gguf"
    if not newer(file, HERE / "to_gguf.py", *checkpoint.glob("*.safetensors")):
        folder.mkdir(parents=True, exist_ok=True)
        for state in folder.glob("state-*"):
            state.unlink()
        subprocess.run([sys.executable, HERE / "to_gguf.py", checkpoint, file], check=True)
    return file, folder


def agreement(peer, tandem, prompts, trained):
    """How many tokens of each greedy continuation are equal before the first that differs, and how far below its
    best logit Tandem has the peer's first choice (median). Exits if the two cannot be the same model."""
    equal, gaps = [], []
    for ids in prompts:
        both = [side.run(kind="greedy", threads=1, ids=ids, tokens=GREEDY_TOKENS)["ids"] for side in (peer, tandem)]
        equal.append(next((i for i, (a, b) in enumerate(zip(*both)) if a != b), GREEDY_TOKENS))
        gaps.append(tandem.run(kind="gap", threads=1, ids=ids, next=both[0][0])["gap"])
    gap = statistics.median(gaps)
    if gap > LARGEST_GAP or (trained and sum(equal) * 2 < GREEDY_TOKENS * len(equal)):
        sys.exit("compare.py: the two do not compute the same model: equal greedy tokens "
                 f"{equal}; the peer's first choices are {gaps} standard deviations below Tandem's best")
    return equal, gap


def measure(peer, tandem, rounds, wanted):
    """{name: [{"peer": {threads: seconds}, "tandem": ..., "load": ...} per round]}"""
    results = {name: [] for name, _, _ in wanted}
    for number in range(rounds):
        for name, job, _ in wanted:
            seconds = {"peer": {}, "tandem": {}}
            for threads in THREADS:
                sides = [("peer", peer), ("tandem", tandem)]
                for key, side in sides if number % 2 == 0 else sides[::-1]:
                    seconds[key][threads] = side.run(threads=threads, **job)["seconds"]
            results[name].append(seconds | {"load": os.getloadavg()[0]})
        print(f"round {number + 1} of {rounds} done", file=sys.stderr)
    return results


def best(seconds):
    return min(seconds.values())


def spread(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} .. {max(values):.{digits}f})"


def table(results, wanted):
    lines = ["| what | llama.cpp, tokens/s | Tandem, tokens/s | ratio: median (min .. max) |", "|---|---|---|---|"]
    for name, _, count in wanted:
        rounds = results[name]
        rates = {key: statistics.median(count / best(r[key]) for r in rounds) for key in ("peer", "tandem")}
        threads = {key: min(THREADS, key=lambda t: statistics.median(r[key][t] for r in rounds)) for key in rates}
        ratio = spread([best(r["peer"]) / best(r["tandem"]) for r in rounds])
        cells = [f"{rates[key]:,.0f} ({threads[key]} thr.)" for key in ("peer", "tandem")]
        lines.append(f"| {name} | {cells[0]} | {cells[1]} | {ratio} |")
    counts = {name: count for name, _, count in wanted}
    if SHORT in counts and LONG in counts:
        cells = [spread([best(long[key]) / counts[LONG] / (best(short[key]) / counts[SHORT])
                         for short, long in zip(results[SHORT], results[LONG])]) for key in ("peer", "tandem")]
        lines.append(f"| a token's time at 16k by that at 256 | {cells[0]} | {cells[1]} | |")
    return "\n".join(lines)


def processor():
    fields = dict(line.split(":", 1) for line in
                  subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout.splitlines()
                  if ":" in line)
    wide = "AVX-512" if "avx512f" in fields.get("Flags", "") else "AVX2" if "avx2" in fields.get("Flags", "") else ""
    return (f"{fields['Model name'].strip()} (family {fields['CPU family'].strip()}, model {fields['Model'].strip()}), "
            f"{fields['CPU(s)'].strip()} processors, {wide}")


def compare(argument, options):
    checkpoint = checkpoint_of(argument, options.build)
    file, states = convert(checkpoint)
    config = json.loads((checkpoint / "config.json").read_text())["text_config"]
    is_demo = checkpoint == (SOURCE / "models" / "demo").resolve()
    prompts = ([entry["ids"] for entry in json.loads(GOLDEN.read_text())] if is_demo else
               [[(i * 7919 + 13 + k) % config["vocab_size"] for i in range(32)] for k in range(4)])
    wanted = [m for m in MEASUREMENTS if not options.only or m[0] in options.only]
    with Side("llama.cpp", ["node", HERE / "llama_cpp.mjs", install_peer(), file, states]) as peer, \
            Side("model_jobs", [options.build / "bench" / "model_jobs", checkpoint]) as tandem:
        equal, gap = agreement(peer, tandem, prompts, trained=is_demo)
        load_before = os.getloadavg()
        results = measure(peer, tandem, options.rounds, wanted)
        report = {"checkpoint": checkpoint.name, "date": datetime.date.today().isoformat(), "processor": processor(),
                  "peer": peer.about, "load_average": {"before": load_before, "after": os.getloadavg()},
                  "greedy_tokens_equal": equal, "greedy_tokens": GREEDY_TOKENS, "median_gap": gap, "rounds": results}
    loads = [r["load"] for rounds in results.values() for r in rounds]
    print(f"\n## {checkpoint.name}\n\n{report['processor']}; {report['date']}; llama.cpp {peer.about['release']}; "
          f"{options.rounds} rounds; load average {spread(loads, 1)}\n"
          f"greedy tokens equal before the first that differs, of {GREEDY_TOKENS}: {', '.join(map(str, equal))}; "
          f"the peer's first choices are {gap:.2f} standard deviations below the best (median)\n\n"
          f"{table(results, wanted)}\n", flush=True)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", nargs="*", default=[SOURCE / "models" / "demo"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", choices=[m[0] for m in MEASUREMENTS], help="repeatable")
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build" / "release")
    parser.add_argument("--out", type=pathlib.Path, help="every time measured, as JSON")
    options = parser.parse_args()
    reports = [compare(checkpoint, options) for checkpoint in options.checkpoints]
    if options.out:
        options.out.write_text(json.dumps(reports, indent=1) + "\n")


if __name__ == "__main__":
    main()
