"""`tandem bench decode`: the bundled model in a few steps, and what it says to options that make no sense."""
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


class Decode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text, cls.report = report_of("decode", "--batch", "1,3", "--context", "5,300", "--tokens", 4,
                                         "--threads", 2)

    def test_every_batch_meets_every_context(self):
        cases = [(case["batch"], case["context"]) for case in self.report["cases"]]
        self.assertEqual(cases, [(1, 5), (1, 300), (3, 5), (3, 300)])

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
            self.assertAlmostEqual(case["tokens_per_s"]["median"] * case["wall_s"]["median"], case["batch"],
                                   delta=1e-6)

    def test_more_requests_reach_more_experts_and_a_longer_context_more_rows(self):
        one, long, three, _ = self.report["cases"]
        self.assertEqual(one["distinct_experts"], 4)  # top_k of the bundled model
        self.assertGreater(three["distinct_experts"], 4)
        self.assertAlmostEqual(long["memory_read_bytes"] - one["memory_read_bytes"], 295 * 640)

    def test_the_text_says_the_same(self):
        self.assertIn("demo (KimiK3ForConditionalGeneration), default precision, cpu kernels, 2 threads", self.text)
        for words in ("batch 3, context 300", "kda recurrence", "experts", "other", "memory, MB"):
            self.assertIn(words, self.text)


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
        self.refused("decode", "/nowhere", naming="/nowhere")
        self.refused("decode", "--json", "/nowhere/report.json", naming="/nowhere/report.json")

    def test_a_context_beyond_the_models_limit_is_refused_before_anything_runs(self):
        self.refused("decode", "--context", "256,32768", naming="--batch 1 --context 32768")

    def test_requests_that_the_memory_cannot_hold_are_refused(self):
        self.refused("decode", "--batch", "16384", "--context", "32000", naming="available")


if __name__ == "__main__":
    main()
