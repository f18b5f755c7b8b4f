"""Standard streams that are closed or full.   usage: standard_streams_test.py TANDEM SOURCE_DIR"""
import subprocess
import sys
import unittest

TANDEM, SOURCE = sys.argv[1], sys.argv[2]
TINY = SOURCE + "/tests/data/golden/k3_tiny"
ANSWER = f"{TANDEM} run --model {TINY} --input-ids 1,2,3 --max-tokens 2 --threads 1"
CHAT = f"{TANDEM} run --model {SOURCE}/models/demo --threads 1"


def shell(command):
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=100)


class StandardStreams(unittest.TestCase):
    def test_a_chat_without_standard_input_ends(self):
        done = shell(f"{CHAT} <&-")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_an_answer_that_cannot_be_written_is_a_failure(self):
        for redirection in (">/dev/full", ">&-"):
            with self.subTest(redirection):
                done = shell(f"{ANSWER} {redirection}")
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, r"\Atandem: .*\n\Z")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
