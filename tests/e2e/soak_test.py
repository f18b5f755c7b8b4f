"""Valid, malformed, oversized, aborted and slow clients at once, for TANDEM_SOAK_SECONDS (600 if unset).

Healthy neighbours get the answer that they get alone, to the last bit of the log-probs; afterwards nobody
holds anything, and the process is as large as it was after the warm-up, a fifth of the time.
"""
import collections
import concurrent.futures
import contextlib
import json
import os
import random
import socket
import threading
import time
import unittest

from cache_checks import Exact, check_leaks, metrics, reference, rss_bytes, wait_idle
from load_cases_test import model_of_context
from serving import STORY, SUM, Server, main

SECONDS = float(os.environ.get("TANDEM_SOAK_SECONDS", "600"))
CONTEXT = 1024
BODY_BYTES = 1 << 20
FIELDS = dict(temperature=0, max_tokens=10, logprobs=True, reasoning_effort="none")


def user(content):
    return [{"role": "user", "content": content}]


CASES = [user(text) for text in ("What is 17 + 25?", "What is the capital of Japan?", "Spell 'river' backwards.",
                                 "Say the words: sun moon tree. " * 8, "Say the words: sun moon stone. " * 8)]


def whole(choice):
    """What must be equal of an answer, however it was sent."""
    return choice["message"]["content"], choice["finish_reason"], choice["logprobs"]["content"]


def streamed(chunks):
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    logprobs = [entry for choice in choices for entry in (choice.get("logprobs") or {}).get("content", [])]
    return "".join(choice["delta"].get("content", "") for choice in choices), choices[-1]["finish_reason"], logprobs


def head(length, extra=""):
    return ("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            "Connection: close\r\nContent-Length: %d\r\n%s\r\n" % (length, extra)).encode()


class Soak:
    """The clients of one server. Each kind loops in threads of its own until it is told to stop."""

    def __init__(self, server):
        self.server, self.stop, self.done = server, threading.Event(), collections.Counter()
        self.expected = [whole(reference(server, case, **FIELDS)["choices"][0]) for case in CASES]

    def run(self, seconds):
        self.stop.clear()
        kinds = [self.healthy] * 3 + [self.malformed, self.oversized, self.aborted, self.aborted, self.slow_reader,
                                      self.slow_sender]
        with concurrent.futures.ThreadPoolExecutor(len(kinds)) as pool:
            clients = [pool.submit(self.loop, kind, random.Random(i)) for i, kind in enumerate(kinds)]
            # A client that fails ends the run at once.
            concurrent.futures.wait(clients, timeout=seconds, return_when=concurrent.futures.FIRST_EXCEPTION)
            self.stop.set()
            for client in clients:
                client.result()

    def loop(self, kind, dice):
        try:
            while not self.stop.is_set():
                kind(dice)
                self.done[kind.__name__] += 1
                # What is refused at once would otherwise leave the others little of the machine.
                time.sleep(0.005)
        except BaseException:
            self.stop.set()
            raise

    def connect(self, receive_bytes=0):
        client = socket.socket()
        client.settimeout(60)
        if receive_bytes:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        client.connect(("127.0.0.1", self.server.port))
        return contextlib.closing(client)

    @staticmethod
    def status(client):
        """The status of an answer, which is read to its end; 0: the connection was closed without one."""
        text = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := client.recv(65536):
                text += piece
        return int(text.split(b" ", 2)[1]) if text.startswith(b"HTTP/1.1 ") else 0

    def expect(self, status, wanted):
        if status != wanted:
            raise AssertionError("status %d instead of %d" % (status, wanted))

    def healthy(self, dice):
        number = dice.randrange(len(CASES))
        if dice.random() < 0.5:
            answer = whole(self.server.chat(CASES[number], **FIELDS)["choices"][0])
        else:
            answer = streamed(self.server.stream(CASES[number], **FIELDS))
        if answer != self.expected[number]:
            raise AssertionError("%s\ninstead of\n%s" % (answer, self.expected[number]))

    def malformed(self, dice):
        good = json.dumps({"messages": SUM, **FIELDS}).encode()
        body = dice.choice((good[:-dice.randrange(1, len(good))], b"[" * 5000, b"\xff\xfe", b"null",
                            json.dumps({"messages": SUM, "temperature": "hot"}).encode(),
                            json.dumps({"messages": [{"role": "robot", "content": "x"}]}).encode()))
        if dice.random() < 0.2:
            with self.connect() as client:
                client.sendall(bytes(dice.randrange(256) for _ in range(64)) + b"\r\n\r\n")
                return self.expect(self.status(client), 400)
        with self.connect() as client:
            client.sendall(head(len(body)) + body)
            self.expect(self.status(client), 400)

    def oversized(self, dice):
        kind = dice.randrange(3)
        with self.connect() as client:
            if kind == 0:
                # Refused by its length, before it has come.
                client.sendall(head(BODY_BYTES + 1))
                self.expect(self.status(client), 413)
            elif kind == 1:
                client.sendall(head(1, "X-Long: %s\r\n" % ("x" * (70 << 10))))
                self.expect(self.status(client), 431)
            else:
                body = json.dumps({"messages": Exact.words(CONTEXT * 2)}).encode()
                client.sendall(head(len(body)) + body)
                self.expect(self.status(client), 400)

    def aborted(self, dice):
        body = json.dumps({"messages": dice.choice((STORY, SUM, CASES[3])), "max_tokens": 200,
                           "stream": dice.random() < 0.7, "n": dice.choice((1, 1, 3))}).encode()
        request = head(len(body)) + body
        if dice.random() < 0.3:
            request = request[:dice.randrange(len(request))]
        with self.connect() as client:
            client.sendall(request)
            time.sleep(dice.random() * 0.2)

    def slow_reader(self, dice):
        body = json.dumps({"messages": CASES[0], "stream": True, "n": 2, **FIELDS}).encode()
        with self.connect(receive_bytes=2048) as client:
            client.sendall(head(len(body)) + body)
            text = b""
            while piece := client.recv(dice.randrange(1, 300)):
                text += piece
                if not self.stop.is_set():
                    time.sleep(0.01)
        if b"data: [DONE]\n\n" not in text:
            raise AssertionError("a slow reader lost the end of its stream: %r" % text[-200:])

    def slow_sender(self, dice):
        body = json.dumps({"messages": CASES[1], "max_tokens": 2}).encode()
        request = head(len(body)) + body
        with self.connect() as client:
            while request:
                size = dice.randrange(1, 30)
                client.sendall(request[:size])
                request = request[size:]
                if not self.stop.is_set():
                    time.sleep(0.01)
            self.expect(self.status(client), 200)


def fill_arena(server):
    """Until something had to be evicted: then every page of the arena has been used, and is resident."""
    def evicted(now):
        return sum(value for series, value in now.items() if series.startswith("tandem_evict_total"))

    number = 0
    while evicted(metrics(server)) < 4:
        server.chat(Exact.words(200), max_tokens=1, cache_salt="fill %d" % number, **Exact.FIELDS)
        number += 1


class MixedLoad(unittest.TestCase):
    def test_neighbours_keep_their_answers_and_nothing_leaks(self):
        options = ("--precision", "exact", "--max-running", 4, "--max-body-mib", BODY_BYTES / (1 << 20))
        with model_of_context(CONTEXT) as folder, Server(folder, *options) as server:
            soak = Soak(server)
            fill_arena(server)
            soak.run(SECONDS / 5)
            check_leaks(self, server)
            before = rss_bytes(server)
            soak.run(SECONDS * 4 / 5)
            check_leaks(self, server)
            after = rss_bytes(server)
            self.assertLess(abs(after - before), 0.01 * before + (1 << 20))
            for kind in ("healthy", "malformed", "oversized", "aborted", "slow_reader", "slow_sender"):
                self.assertGreater(soak.done[kind], 0, kind)
            wait_idle(server)
            print("%s; resident %.1f MiB after the warm-up, %.1f at the end"
                  % (dict(soak.done), before / 2**20, after / 2**20))


if __name__ == "__main__":
    main()
