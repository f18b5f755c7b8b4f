"""The engine's flags through the real binary: notes, refusals, memory that is too small."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from serving import Server

TANDEM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
TINY = SOURCE / "tests/data/golden/k3_tiny"


def run(*arguments):
    return subprocess.run([TANDEM, *map(str, arguments)], capture_output=True, text=True, timeout=60)


def answer(*arguments, model=TINY):
    return run("run", "--threads", "1", "--model", model, "--input-ids", "1,2,3", "--max-tokens", "2",
               "--temperature", "0", *arguments)


class EngineFlags(unittest.TestCase):
    def expect_refusal(self, done, *words):
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_flags_change_no_answer_and_say_what_does_nothing(self):
        plain = answer()
        self.assertEqual((plain.returncode, plain.stderr), (0, ""))
        done = answer("--page-size", 32, "--chunked-prefill-size", 64, "--disable-radix-cache",
                      "--disable-overlap-schedule", "--mamba-track-interval", 256,
                      "--enable-unified-memory", "--mamba-full-memory-ratio", 0.9)
        self.assertEqual((done.returncode, done.stdout), (0, plain.stdout))
        self.assertEqual(done.stderr.splitlines(),
                         ["tandem: --enable-unified-memory: always on",
                          "tandem: --mamba-full-memory-ratio: ignored, states and rows share one pool"])

    def test_a_command_line_of_sglang_starts_the_server(self):
        with Server(TINY, "--tp-size", 1, "--mem-fraction-static", 0.7, "--max-running-requests", 4,
                    "--max-queued-requests", 8, "--chunked-prefill-size", 1024, "--page-size", 64,
                    "--schedule-policy", "lpm", "--mamba-radix-cache-strategy", "extra_buffer",
                    "--mamba-ssm-dtype", "float32", "--enable-unified-memory") as server:
            self.assertEqual(server.request("GET", "/health")[0], 200)

    def test_what_is_not_supported_is_refused_in_one_line(self):
        for flag, value in (("--tp-size", 2), ("--dcp-size", 2), ("--mamba-ssm-dtype", "bfloat16")):
            for done in (answer(flag, value), run("serve", TINY, flag, value)):
                self.expect_refusal(done, "%s %s" % (flag, value))

    def test_bad_values_exit_2(self):
        for flag, value in (("--mem-fraction-static", 2), ("--schedule-policy", "best"),
                            ("--max-running-requests", 0), ("--mamba-full-memory-ratio", "x"),
                            ("--mem-fraction-static", "nan"), ("--max-body-mib", "nan"),
                            ("--drain-timeout", "nan")):
            done = run("serve", TINY, flag, value)
            self.assertEqual(done.returncode, 2)
            self.assertIn(flag, done.stderr)

    def test_a_context_that_memory_does_not_hold_is_refused_with_the_sum(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "long"
            shutil.copytree(TINY, model)
            config = json.loads((model / "config.json").read_text())
            config["text_config"]["max_position_embeddings"] = 2**31 - 1
            (model / "config.json").write_text(json.dumps(config))
            for done in (answer(model=model), run("serve", model)):
                self.expect_refusal(done, "1 request of 2147483647 tokens needs", "--context-length")
            self.assertEqual(answer("--context-length", 4096, model=model).stdout, answer().stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
