"""`tandem plan` through the real binary: Kimi K3's numbers, questions, refusals, the documentation."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TANDEM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
K3 = SOURCE / "tests/data/configs/kimi-k3.config.json"
DEMO = SOURCE / "models/demo"
GIB = 1 << 30


def run(*arguments):
    return subprocess.run([TANDEM, "plan", *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, cwd=SOURCE)


class Plan(unittest.TestCase):
    def plan(self, *arguments):
        done = run(*arguments, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def expect_refusal(self, *arguments, words=()):
        done = run(*arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_kimi_k3_over_eight_ranks(self):
        plan = self.plan(K3, "--tp-size", 8, "--memory", "40GiB")
        self.assertEqual((plan["state_bytes"], plan["row_bytes"], plan["token_bytes"]),
                         (56171520, 27648, 27648))
        self.assertEqual(plan["state_cost_tokens"], 2032)
        self.assertEqual(plan["weight_source"], "configuration")

    def test_kimi_k3_with_rows_shared_by_position(self):
        plan = self.plan(K3, "--tp-size", 8, "--dcp-size", 8, "--memory", "40GiB")
        self.assertEqual((plan["state_bytes"], plan["token_bytes"]), (56171520, 3456))
        self.assertEqual((plan["state_cost_tokens"], plan["page_tokens"]), (16254, 128))

    def test_the_table_adds_up(self):
        plan = self.plan(K3, "--tp-size", 8, "--memory", "40GiB")
        self.assertEqual([row["context_tokens"] for row in plan["table"]],
                         [1024, 8192, 65536, 524288, 1048576])
        self.assertEqual(plan["usable_bytes"], 40 * GIB - plan["padding_bytes"])
        for row in plan["table"]:
            pages = -(-row["context_tokens"] // plan["page_tokens"])
            each = plan["state_bytes"] + pages * plan["page_bytes"]
            self.assertEqual(row["requests"], plan["usable_bytes"] // each)
            self.assertAlmostEqual(row["state_share"] + row["row_share"],
                                   row["requests"] * each / plan["usable_bytes"])

    def test_questions_are_each_others_inverse(self):
        memory = (DEMO, "--memory", "100MiB")
        requests = self.plan(*memory, "--context", 10000)["answer"]["requests"]
        longest = self.plan(*memory, "--requests", requests)["answer"]["context_tokens"]
        self.assertGreaterEqual(longest, 10000)
        self.assertEqual(self.plan(*memory, "--requests", requests, "--context", longest)["answer"],
                         {"context_tokens": longest, "requests": requests})
        self.expect_refusal(*memory, "--requests", requests, "--context", longest + 1,
                            words=("100.00 MiB", str(longest)))
        self.expect_refusal(*memory, "--requests", requests + 1, "--context", longest,
                            words=("%d such requests" % requests,))

    def test_sizes_of_memory(self):
        def budget(text):
            return self.plan(DEMO, "--memory", text)["budget_bytes"]
        self.assertEqual(budget("1GiB"), GIB)
        self.assertEqual(budget("64MiB"), 64 << 20)
        self.assertEqual(budget("2GB"), 2 * 10**9)
        self.assertEqual(budget("123456789"), 123456789)
        self.assertAlmostEqual(budget("40%") / budget("20%"), 2, places=5)

    def test_the_default_is_what_the_requests_of_a_small_model_can_use(self):
        plan = self.plan(DEMO)
        self.assertEqual(plan["weight_source"], "files")
        pages = plan["context_limit_tokens"] // plan["page_tokens"]
        self.assertEqual(plan["budget_bytes"],
                         plan["padding_bytes"]
                         + 16 * 2 * (plan["state_bytes"] + pages * plan["page_bytes"]))
        fewer = self.plan(DEMO, "--max-running-requests", 4)
        self.assertLess(fewer["budget_bytes"], plan["budget_bytes"] / 3.9)

    def test_the_bundled_model_is_the_default(self):
        self.assertEqual(self.plan("--memory", "1GiB"), self.plan(DEMO, "--memory", "1GiB"))

    def test_a_folder_with_a_configuration_only(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(K3, pathlib.Path(folder) / "config.json")
            plan = self.plan(folder, "--tp-size", 8, "--memory", "40GiB")
        self.assertEqual(plan["weight_source"], "configuration")
        self.assertEqual(plan["weight_bytes"],
                         self.plan(K3, "--tp-size", 8, "--memory", "40GiB")["weight_bytes"])

    def test_bad_input_exits_2_with_one_line(self):
        self.expect_refusal("/no/such/model", words=("/no/such/model",))
        self.expect_refusal(SOURCE / "README.md", words=("README.md",))
        self.expect_refusal(SOURCE / "docs", words=("config.json",))
        self.expect_refusal(K3, "--tp-size", 5, words=("tp size 5", "96 heads"))
        self.expect_refusal(K3, "--tp-size", 8, "--dcp-size", 3, words=("dcp size 3",))
        self.expect_refusal(DEMO, "--tp-size", 0, words=("tp size is 0",))
        self.expect_refusal(DEMO, "--page-size", 0, words=("page size is 0",))
        self.expect_refusal(DEMO, "--context", 0, words=("--context 0", "32768"))
        self.expect_refusal(DEMO, "--context", 32769, words=("--context 32769", "32768"))
        self.expect_refusal(DEMO, "--requests", 0, words=("--requests 0",))
        for size in ("40G", "0", "0%", "101%", "x%"):
            self.expect_refusal(DEMO, "--memory", size, words=("--memory", size))
        self.expect_refusal(K3, "--tp-size", 8, "--memory", "100MiB",
                            words=("100.00 MiB", "53.57 MiB"))
        self.expect_refusal(K3, "--mem-fraction-static", 0.01, words=("the weights take 1.42 TiB",))
        self.assertEqual(run(K3, "--tp-size", "x").returncode, 2)
        self.assertEqual(run(K3, "--precision", "half").returncode, 2)

    def test_the_documentation_shows_what_is_printed(self):
        page = (SOURCE / "docs/plan-command.md").read_text()
        examples = re.findall(r"^\$ tandem plan (.*)\n((?:.|\n)*?)^```$", page, re.MULTILINE)
        self.assertEqual(len(examples), 2)
        for arguments, shown in examples:
            done = run(*arguments.split())
            self.assertEqual(done.stdout + done.stderr, shown, arguments)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
