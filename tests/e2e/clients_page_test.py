"""The examples of docs/clients.md for the shell and for Python do what the page says."""
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from serving import Server, main

PAGE = pathlib.Path(sys.argv[2]) / "docs" / "clients.md"
# A block, and the output that follows it.
EXAMPLE = re.compile(r"```(\w+)\n(.*?)```\n```\n(.*?)```\n", re.DOTALL)


def examples(language):
    found = [(code, output) for name, code, output in EXAMPLE.findall(PAGE.read_text())
             if name == language]
    if not found:
        raise AssertionError("no examples for " + language)
    return found


class ClientsPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())

    def expect(self, command, code, expected):
        code = code.replace("http://127.0.0.1:8000", "http://127.0.0.1:%d" % self.server.port)
        ran = subprocess.run(command + [code], capture_output=True, text=True, timeout=60)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        # An ellipsis stands for anything.
        pattern = ".*".join(re.escape(part) for part in expected.strip().split("…"))
        self.assertRegex(ran.stdout.strip(), re.compile("^" + pattern + "$", re.DOTALL))

    def test_shell(self):
        if shutil.which("curl") is None:
            self.skipTest("no curl")
        for code, output in examples("sh"):
            with self.subTest(code):
                self.expect(["bash", "-c"], code, output)

    def test_python(self):
        ran = 0
        for code, output in examples("python"):
            if "from openai" in code and importlib.util.find_spec("openai") is None:
                continue
            with self.subTest(code):
                self.expect([sys.executable, "-c"], code, output)
                ran += 1
        self.assertGreater(ran, 0)


if __name__ == "__main__":
    main()
