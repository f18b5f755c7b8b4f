"""Starts `tandem serve` on a free port and talks to it. Standard library only.

Scripts that use it are called with the program and the source folder: NAME.py TANDEM SOURCE_DIR.
"""
import http.client
import json
import signal
import socket
import subprocess
import sys

TANDEM = sys.argv[1]

TIMER = {"type": "function", "function": {
    "name": "set_timer", "description": "Start a timer.",
    "parameters": {"type": "object", "properties": {"minutes": {"type": "number"}},
                   "required": ["minutes"]}}}
SUM = [{"role": "user", "content": "What is 4738 + 2965?"}]
STORY = [{"role": "user", "content": "Tell me a short story."}]


class Server:
    """The bundled model behind HTTP; use as a context manager."""

    def __init__(self, *options, threads=1):
        self.process = subprocess.Popen(
            [TANDEM, "serve", "--port", "0", "--threads", str(threads), *map(str, options)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("listening on http://"):
            raise AssertionError("no listening line: %r %s" % (line, self.process.stderr.read()))
        self.port = int(line.rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def exit_code(self):
        return self.process.wait(timeout=60)

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def request(self, method, path, body=None, content_type="application/json", headers=None):
        """(status, headers, JSON of the body)"""
        connection = self.connect()
        try:
            connection.request(method, path, body, {"Content-Type": content_type, **(headers or {})})
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, answer.headers, json.loads(text) if text else None
        finally:
            connection.close()

    def post(self, fields, path="/v1/chat/completions", headers=None):
        return self.request("POST", path, json.dumps(fields), headers=headers)

    def ask(self, path, fields):
        """The body of a request that must succeed."""
        status, _, body = self.post(fields, path)
        if status != 200:
            raise AssertionError("%d %s" % (status, body))
        return body

    def chat(self, messages, **fields):
        """The response of a request that must succeed."""
        status, _, body = self.post({"messages": messages, **fields})
        if status != 200:
            raise AssertionError("%d %s" % (status, body))
        return body

    def open_stream(self, messages, **fields):
        return Stream(self, {"messages": messages, "stream": True, **fields})

    def stream_of(self, path, fields):
        """Every chunk of a stream of any route."""
        with Stream(self, {"stream": True, **fields}, path) as stream:
            return list(stream)

    def stream(self, messages, **fields):
        """Every chunk of a stream that must succeed."""
        with self.open_stream(messages, **fields) as stream:
            return list(stream)


class Stream:
    """Iterates over chunks; ends at [DONE]."""

    def __init__(self, server, fields, path="/v1/chat/completions", headers=None):
        self.connection = server.connect()
        self.connection.request("POST", path, json.dumps(fields),
                                {"Content-Type": "application/json", **(headers or {})})
        self.answer = self.connection.getresponse()
        if self.answer.status != 200:
            raise AssertionError("%d %s" % (self.answer.status, self.answer.read()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.leave()

    def __iter__(self):
        while True:
            line = self.answer.readline()
            if not line:
                raise AssertionError("the stream ended without [DONE]")
            if line.startswith(b"data: "):
                text = line[len(b"data: "):].strip()
                if text == b"[DONE]":
                    return
                yield json.loads(text)

    def leave(self):
        # The file of the response holds the socket open, too.
        self.answer.close()
        self.connection.close()


def joined(chunks, choice=0):
    """The message that a stream's deltas add up to, and its finish reason."""
    message, finish = {"role": None, "content": ""}, []
    for chunk in chunks:
        for entry in chunk["choices"]:
            if entry["index"] != choice:
                continue
            delta = entry["delta"]
            if entry["finish_reason"] is not None:
                finish.append(entry["finish_reason"])
            message["role"] = delta.get("role", message["role"])
            message["content"] += delta.get("content", "")
            if "reasoning_content" in delta:
                message["reasoning_content"] = (message.get("reasoning_content", "")
                                                + delta["reasoning_content"])
            for call in delta.get("tool_calls", []):
                calls = message.setdefault("tool_calls", [])
                if call["index"] == len(calls):
                    calls.append({"id": call["id"], "type": call["type"],
                                  "function": dict(call["function"])})
                else:
                    calls[-1]["function"]["arguments"] += call["function"]["arguments"]
    if "tool_calls" in message and not message["content"]:
        message["content"] = None
    if len(finish) != 1:
        raise AssertionError("finish reasons: %s" % finish)
    return message, finish[0]


def main():
    import unittest
    unittest.main(argv=sys.argv[:1])
