"""`tandem run` through the real binary: answers, JSON, exit codes, the chat, Ctrl-C."""
import json
import os
import pty
import subprocess
import sys
import unittest

TANDEM = sys.argv[1]


def run(*arguments, stdin=""):
    return subprocess.run([TANDEM, "run", "--threads", "1", *arguments], input=stdin,
                          capture_output=True, text=True, timeout=60)


class Run(unittest.TestCase):
    def test_answers_and_exits_0(self):
        done = run("-p", "What is 4738 + 2965?", "--temperature", "0")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, "7703"))

    def test_shows_thinking_if_asked(self):
        done = run("-p", "What is 4738 + 2965?", "--temperature", "0", "--show-thinking")
        self.assertIn("So 4738+2965=7703", done.stdout)

    def test_the_last_line_of_json_is_one_object(self):
        done = run("-p", "What is 4738 + 2965?", "--temperature", "0", "--json")
        answer = json.loads(done.stdout.strip().splitlines()[-1])
        self.assertEqual(answer["content"], "7703")
        self.assertIn("7703", answer["reasoning"])
        self.assertEqual((answer["finish_reason"], answer["tool_calls"]), ("stop", []))
        usage = answer["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        self.assertEqual(usage["prompt_tokens_details"],
                         {"cached_tokens": 0, "replayed_tokens": 0, "cache_miss": "new"})
        self.assertGreater(answer["timings"]["decode_ms"], 0)

    def test_max_tokens_ends_with_length_and_a_seed_repeats(self):
        story = ("-p", "Tell me a short story.", "--max-tokens", "12", "--json", "--seed", "3")
        first, second = (json.loads(run(*story).stdout.strip().splitlines()[-1]) for _ in range(2))
        self.assertEqual(first["finish_reason"], "length")
        self.assertEqual(first["usage"]["completion_tokens"], 12)
        self.assertEqual((first["content"], first["reasoning"]),
                         (second["content"], second["reasoning"]))

    def test_bad_input_exits_2_with_one_line(self):
        for arguments in (("-p", "hi", "--model", "/no/such/folder"),
                          ("-p", "hi", "--temperature", "-1"),
                          ("-p", "hi", "--top-p", "0"),
                          ("--input-ids", "1,x"),
                          ("--input-ids", "99999999")):
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stdout, "", arguments)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertEqual(run("--no-such-option").returncode, 2)

    def test_a_chat_remembers_until_it_is_reset(self):
        ask = "What is 2 + 3?\n"
        done = run("--temperature", "0", "--json", stdin=ask + ask + "/reset\n" + ask + "/exit\n" + ask)
        self.assertEqual(done.returncode, 0)
        answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        prompts = [answer["usage"]["prompt_tokens"] for answer in answers]
        self.assertEqual(len(prompts), 3)
        self.assertGreater(prompts[1], prompts[0])
        self.assertGreater(answers[1]["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertEqual(prompts[2], prompts[0])

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        child, terminal = pty.fork()
        if child == 0:
            # With plain loops the answer takes a second, so that the key surely comes before its end.
            os.execl(TANDEM, "tandem", "run", "--backend", "ref", "--temperature", "0", "--show-thinking")
        self.addCleanup(os.close, terminal)
        unread = ""

        # What the terminal shows up to `mark`.
        def read_to(mark):
            nonlocal unread
            while mark not in unread:
                unread += os.read(terminal, 4096).decode(errors="replace")
            before, _, unread = unread.partition(mark)
            return before

        read_to("> ")
        os.write(terminal, b"What is 98765 + 87654?\n")
        read_to("write")  # it works out the last digit
        os.write(terminal, b"\x03")
        self.assertNotIn("186419", read_to("> "))
        os.write(terminal, b"\x03")  # nothing to stop: a hint
        read_to("Ctrl-D leaves")
        os.write(terminal, b"What is 4738 + 2965?\n")
        read_to("4738+2965=7703")
        read_to("> ")
        os.write(terminal, b"/exit\n")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
