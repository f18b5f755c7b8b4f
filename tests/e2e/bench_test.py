"""`tandem bench decode` and `prefill`: the bundled model in a few steps, and what it says to options that make no sense."""
import json
import pathlib
import subprocess
import tempfile
import unittest

from serving import TANDEM, main


def bench(*options):
    """(exit code, standard output, standard error)"""
    done = subprocess.run([TANDEM, "bench", *map(str, options)], capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout, done.stderr


def report_of(*options):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "report.json"
        code, out, err = bench(*options, "--json", file)
        if code:
            raise AssertionError(err)
        return out, json.loads(file.read_text())


class Steps:
    """What holds for every case of a report of steps."""

    def test_stages_add_up_to_the_step(self):
        for case in self.report["cases"]:
            parts = sum(stage["seconds"] for stage in case["stages"])
            self.assertAlmostEqual(parts + case["other_s"], case["stages_wall_s"], delta=1e-9)
            self.assertLess(case["other_s"], 0.05 * case["stages_wall_s"])
            for count in ("weight_bytes", "memory_read_bytes", "memory_write_bytes", "flop"):
                of_stages = sum(stage[count] for stage in case["stages"])
                self.assertAlmostEqual(of_stages, case[count], delta=1e-6 * case[count])

    def test_shares_are_of_the_rates_measured_in_the_run(self):
        machine = self.report["machine"]
        for case in self.report["cases"]:
            self.assertGreater(case["read_share"], 0)
            rate = case["read_share"] * machine["read_bytes_per_s"]["max"]
            self.assertAlmostEqual(rate, case["read_bytes_per_s"], delta=1e-6 * rate)
            for key in ("tokens_per_s", "wall_s"):
                self.assertLessEqual(case[key]["min"], case[key]["median"])
                self.assertLessEqual(case[key]["median"], case[key]["max"])
            tokens = case["tokens_per_s"]["median"] * case["wall_s"]["median"]
            self.assertAlmostEqual(tokens, case.get("prompt") or case["batch"], delta=1e-6 * tokens)


class Decode(Steps, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text, cls.report = report_of("decode", "--batch", "1,3", "--context", "5,300", "--tokens", 4,
                                         "--threads", 2)

    def test_every_batch_meets_every_context(self):
        cases = [(case["batch"], case["context"]) for case in self.report["cases"]]
        self.assertEqual(cases, [(1, 5), (1, 300), (3, 5), (3, 300)])

    def test_more_requests_reach_more_experts_and_a_longer_context_more_rows(self):
        one, long, three, _ = self.report["cases"]
        self.assertEqual(one["distinct_experts"], 4)  # top_k of the bundled model
        self.assertGreater(three["distinct_experts"], 4)
        self.assertAlmostEqual(long["memory_read_bytes"] - one["memory_read_bytes"], 295 * 640)

    def test_the_text_says_the_same(self):
        self.assertIn("demo (KimiK3ForConditionalGeneration), default precision, cpu kernels, 2 threads", self.text)
        for words in ("batch 3, context 300", "kda recurrence", "experts", "other", "memory, MB"):
            self.assertIn(words, self.text)


class Prefill(Steps, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text, cls.report = report_of("prefill", "--prompt", "8,40", "--chunk", 16, "--repetitions", 2,
                                         "--threads", 1, "--precision", "exact")

    def test_a_prompt_reads_the_weights_once_a_chunk_and_the_head_once(self):
        short, long = self.report["cases"]
        self.assertEqual([short["prompt"], long["prompt"]], [8, 40])
        bytes_of = [{stage["stage"]: stage["weight_bytes"] for stage in case["stages"]} for case in (short, long)]
        self.assertEqual(bytes_of[1]["kda projections"], 3 * bytes_of[0]["kda projections"])
        self.assertEqual(bytes_of[1]["head"], bytes_of[0]["head"])

    def test_the_text_says_the_same(self):
        self.assertIn("exact precision, cpu kernels, 1 thread\n", self.text)
        self.assertIn("prompt 40", self.text)


class Text(unittest.TestCase):
    def test_tokens_of_one_word_reach_the_experts_of_one(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "text"
            file.write_text(" the" * 50)
            _, report = report_of("prefill", "--prompt", 40, "--text", file, "--repetitions", 1)
            _, random = report_of("prefill", "--prompt", 40, "--repetitions", 1)
        self.assertLess(report["cases"][0]["distinct_experts"], 0.8 * random["cases"][0]["distinct_experts"])


class BadOptions(unittest.TestCase):
    def refused(self, *options, naming):
        code, out, err = bench(*options)
        self.assertEqual((code, out), (2, ""), err)
        self.assertIn(naming, err)

    def test_are_named(self):
        self.refused("decode", "--batch", "1,0", naming="--batch")
        self.refused("decode", "--batch", "1,two", naming="--batch")
        self.refused("decode", "--context", "0", naming="--context")
        self.refused("decode", "--tokens", "0", naming="--tokens")
        self.refused("decode", "--threads", "-1", naming="--threads")
        self.refused("decode", "--text", "/nowhere/text", naming="/nowhere/text")
        with tempfile.NamedTemporaryFile() as empty:
            self.refused("decode", "--text", empty.name, naming="no text")
        self.refused("prefill", "--prompt", "0", naming="--prompt")
        self.refused("prefill", "--chunk", "0", naming="--chunk")
        self.refused("prefill", "--repetitions", "0", naming="--repetitions")
        self.refused("decode", "/nowhere", naming="/nowhere")
        self.refused("decode", "--json", "/nowhere/report.json", naming="/nowhere/report.json")

    def test_a_context_beyond_the_models_limit_is_refused_before_anything_runs(self):
        self.refused("decode", "--context", "256,32768", naming="--batch 1 --context 32768")
        self.refused("prefill", "--prompt", "512,32769", naming="--prompt 32769")

    def test_requests_that_the_memory_cannot_hold_are_refused(self):
        self.refused("decode", "--batch", "16384", "--context", "32000", naming="available")


if __name__ == "__main__":
    main()
