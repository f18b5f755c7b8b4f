"""`tandem bench serve`: against the real server, and against one that misbehaves by a script."""
import http.server
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree

from cache_checks import metrics, wait_idle
from serving import TANDEM, Server, main

# What an answer costs here: little.
SMALL = ("--prompt-tokens", 12, "--answer-tokens", 4)


def start(port, *options):
    return subprocess.Popen([TANDEM, "bench", "serve", "--url", "http://127.0.0.1:%d" % port, *map(str, options)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def bench(port, *options):
    """(exit code, standard output, standard error)"""
    process = start(port, *options)
    out, err = process.communicate(timeout=100)
    return process.returncode, out, err


def report_of(port, *options):
    """The report of a run in which something was answered, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "report.json"
        code, _, err = bench(port, "--json", file, *options)
        if err:
            raise AssertionError(err)
        report = json.loads(file.read_text())
        if code != (0 if report["answered"] else 1):
            raise AssertionError(code)
        return report


def delta(text, finish=None):
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text},
                                                "finish_reason": finish}]}).encode() + b"\n\n"


GOOD = [delta("one"), delta(" two"), delta("", "stop"), b"data: [DONE]\n\n"]


class Scripted(http.server.ThreadingHTTPServer):
    """Answers the i-th request to a completion route with what `script` says for i: a function of the handler."""
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, script):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.lock, self.bodies, self.times = script, threading.Lock(), [], []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]

    def handle_error(self, *_):
        pass  # the client leaves at the first piece that makes no sense

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a piece leaves when it is written

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.whole(200, {"data": [{"id": "scripted"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            number = len(self.server.bodies)
            self.server.bodies.append((self.path, body))
            self.server.times.append(time.monotonic())
        self.server.script(number, self)

    def whole(self, status, fields):
        text = json.dumps(fields).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def stream(self, pieces, end=b"0\r\n\r\n", pause_s=0.0):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            time.sleep(pause_s)
        self.wfile.write(end)

    def cut(self, pieces):
        self.stream(pieces, end=b"")
        self.close_connection = True

    def raw(self, text):
        self.wfile.write(text)
        self.close_connection = True


def kinds(report):
    return {error["kind"]: error["count"] for error in report["errors"]}


class RealServer(unittest.TestCase):
    def test_reports_what_the_server_did(self):
        with Server() as server, tempfile.TemporaryDirectory() as folder:
            json_file, svg_file = (os.path.join(folder, name) for name in ("a.json", "a.svg"))
            code, out, err = bench(server.port, "--requests", 10, "--concurrency", 4, "--spread", 0, "--json", json_file,
                                   "--svg", svg_file, *SMALL)
            self.assertEqual((code, err), (0, ""))
            self.assertIn("10 of 10 requests answered", out)
            with open(json_file) as file:
                report = json.load(file)
            self.assertEqual((report["requests"], report["answered"], report["errors"]), (10, 10, []))
            self.assertEqual(report["whole_answer_ms"]["count"], 10)
            self.assertLessEqual(report["first_token_ms"]["max"], report["whole_answer_ms"]["max"])
            self.assertGreater(report["first_token_ms"]["p50"], 0)
            # Both count the same tokens.
            counted = wait_idle(server)
            self.assertEqual(report["prompt_tokens"], counted['sglang:prompt_tokens_total{model_name="demo"}'])
            self.assertEqual(report["completion_tokens"], counted['sglang:generation_tokens_total{model_name="demo"}'])
            root = xml.etree.ElementTree.parse(svg_file).getroot()
            self.assertTrue(root.tag.endswith("svg"))
            self.assertIn("demo at http://127.0.0.1", "".join(root.itertext()))

    def test_conversations_and_groups_meet_the_cache(self):
        with Server() as server:
            turns = report_of(server.port, "--workload", "multi-turn", "--turns", 3, "--requests", 5, *SMALL)
            self.assertEqual(turns["answered"], 6)  # two whole conversations
            self.assertGreater(turns["cached_tokens"], 0)
            self.assertEqual(turns["cached_tokens"], metrics(server)['sglang:cached_tokens_total{model_name="demo"}'])
            groups = report_of(server.port, "--workload", "shared-prefix", "--groups", 1, "--prefix-tokens", 60,
                               "--requests", 4, "--seed", 9, *SMALL)
            self.assertGreater(groups["cached_tokens"], 3 * 60)

    def test_refusals_are_errors_by_kind(self):
        with Server() as server:
            report = report_of(server.port, "--requests", 3, "--model", "other", *SMALL)
            self.assertEqual(kinds(report), {"HTTP 404": 3})
            self.assertIn("other", report["errors"][0]["first"])
            self.assertIsNone(report["first_token_ms"])

    def test_an_interrupt_ends_the_run_with_a_report(self):
        with Server() as server:
            process = start(server.port, "--duration", 1000, "--concurrency", 2, *SMALL)
            while metrics(server)["sglang:generation_tokens_total{model_name=\"demo\"}"] < 20:
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, err), (0, ""))
            self.assertIn(", interrupted", out)
            wait_idle(server)  # what it left open has ended


class MisbehavingServer(unittest.TestCase):
    def test_only_whole_answers_are_samples(self):
        slow = [delta("x")] * 3

        def script(number, handler):
            (lambda: handler.stream(GOOD),
             lambda: handler.whole(500, {"error": {"message": "on purpose"}}),
             lambda: handler.cut(slow),
             lambda: handler.stream(slow),
             lambda: handler.stream([delta("x"), b"data: [DONE]\n\n"]),
             lambda: handler.stream([delta("x"), b"data: {no json\n\n"]),
             lambda: handler.stream([b'data: {"error": {"message": "mid-way"}}\n\n', b"data: [DONE]\n\n"]),
             lambda: handler.raw(b"\x00\x01 this is not HTTP\r\n\r\n"),
             lambda: handler.whole(200, {"choices": []}),
             lambda: handler.raw(b""),
             lambda: time.sleep(3),
             )[number % 11]()

        with Scripted(script) as server:
            report = report_of(server.port, "--requests", 22, "--timeout", 1, *SMALL)
        self.assertEqual(report["answered"], 2)
        self.assertEqual(kinds(report), {"HTTP 500": 2, "cut off": 6, "unfinished": 2, "garbage": 2,
                                         "error in the stream": 2, "not HTTP": 2, "not a stream": 2, "timeout": 2})
        self.assertEqual(report["first_token_ms"]["count"], 2)
        self.assertEqual(report["between_pieces_ms"]["count"], 2)
        self.assertIsNone(report["completion_tokens"])

    def test_pieces_are_timed_as_they_arrive(self):
        with Scripted(lambda _, handler: handler.stream(GOOD, pause_s=0.1)) as server:
            report = report_of(server.port, "--requests", 2, *SMALL)
        self.assertGreater(report["between_pieces_ms"]["p50"], 80)
        self.assertLess(report["first_token_ms"]["p50"], report["whole_answer_ms"]["p50"] - 250)

    def test_arrivals_do_not_wait_for_answers(self):
        # 30 requests at 60 a second, of which none is answered before all have come.
        everyone = threading.Barrier(30, timeout=60)

        def script(_, handler):
            everyone.wait()
            handler.stream(GOOD)

        with Scripted(script) as server:
            report = report_of(server.port, "--rate", 60, "--requests", 30, "--seed", 3, *SMALL)
            times = server.times
        self.assertEqual(report["answered"], 30)
        self.assertGreater(max(times) - min(times), 0.15)  # and they did not come at once

    def test_a_run_ends_when_its_time_is_over(self):
        with Scripted(lambda _, handler: handler.stream(GOOD)) as server:
            report = report_of(server.port, "--duration", 0.5, "--concurrency", 2, *SMALL)
        self.assertGreater(report["answered"], 2)
        self.assertLess(report["wall_s"], 30)

    def test_requests_are_what_was_asked_for(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write('{"prompt": "first"}\n{"prompt": "second", "max_tokens": 3}\n')
            file.flush()
            with Scripted(lambda _, handler: handler.stream(GOOD)) as server:
                report_of(server.port, "--dataset", file.name, "--requests", 2, "--extra-body",
                          '{"temperature": 0, "stop": ["x"]}')
                report_of(server.port, "--dataset", file.name, "--requests", 1, "--endpoint", "completions")
                report_of(server.port, "--workload", "multi-turn", "--turns", 2, "--requests", 2, *SMALL)
                bodies = server.bodies
        path, first = bodies[0]
        self.assertEqual(path, "/v1/chat/completions")
        self.assertEqual(first, {"model": "scripted", "stream": True, "stream_options": {"include_usage": True},
                                 "max_tokens": 64, "temperature": 0, "stop": ["x"],
                                 "messages": [{"role": "user", "content": "first"}]})
        self.assertEqual(bodies[1][1]["max_tokens"], 3)
        path, completion = bodies[2]
        self.assertEqual((path, completion["prompt"]), ("/v1/completions", "first"))
        before, after = bodies[3][1]["messages"], bodies[4][1]["messages"]
        self.assertEqual(after[:1], before)
        self.assertEqual(after[1], {"role": "assistant", "content": "one two"})
        self.assertEqual(len(after), 3)

    def test_a_kept_connection_that_the_server_closed_is_no_error(self):
        def script(_, handler):
            handler.stream(GOOD)
            handler.close_connection = True  # unannounced

        with Scripted(script) as server:
            report = report_of(server.port, "--requests", 6, *SMALL)
        self.assertEqual((report["answered"], report["errors"]), (6, []))


class BadInput(unittest.TestCase):
    def check(self, *options, says, code=2):
        process = subprocess.run([TANDEM, "bench", "serve", *options], capture_output=True, text=True, timeout=60)
        self.assertEqual(process.returncode, code, process.stderr)
        self.assertEqual(process.stdout, "")
        self.assertIn(says, process.stderr.splitlines()[0])

    def test_is_answered_in_one_line(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write('{"prompt": 1}\n')
            file.flush()
            self.check("--dataset", file.name, says="%s: line 1: prompt: expected a string" % file.name)
        self.check("--url", "https://x", says="only http:// is supported")
        self.check("--rate", "1", "--concurrency", "2", says="excludes")
        self.check("--rate", "0", says="--rate")
        self.check("--workload", "nothing", says="--workload")
        self.check("--extra-body", "[]", says="--extra-body: expected a JSON object")
        self.check("--json", "/nonexistent/x", says="/nonexistent/x cannot be written")
        with Scripted(None) as server:
            nobody = server.port
        self.check("--url", "127.0.0.1:%d" % nobody, says="/v1/models", code=1)


if __name__ == "__main__":
    main()
