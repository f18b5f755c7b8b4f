"""`tandem serve` with many clients: answers, queues, clients that leave, and the end."""
import concurrent.futures
import signal
import unittest

from serving import STORY, SUM, Server, main

# The model thinks about an odd number of words for long: enough to be interrupted.
LONG = dict(temperature=0, max_tokens=2000, stop=None)


class Together(unittest.TestCase):
    def test_answers_do_not_depend_on_who_asks_beside(self):
        asks = ([{"role": "user", "content": "What is %d + %d?" % (17 * i + 11, 91 * i + 8)}]
                for i in range(6))
        cases = [dict(messages=ask, temperature=0, max_tokens=40, logprobs=True) for ask in asks]
        with Server("--precision", "exact") as server:
            alone = [server.chat(**case)["choices"] for case in cases]
            with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
                together = list(pool.map(lambda case: server.chat(**case)["choices"], cases))
        self.assertEqual(together, alone)

    def test_a_full_queue_refuses_at_once_and_finishes_what_it_took(self):
        with Server("--max-running", 1, "--max-queued", 1) as server:
            with server.open_stream(STORY, **LONG) as running:
                chunks = iter(running)
                next(chunks), next(chunks)  # it runs: the queue is empty again
                with server.open_stream(SUM, temperature=0) as queued:
                    for _ in range(10):
                        status, headers, body = server.post({"messages": SUM})
                        self.assertEqual(status, 429)
                        self.assertEqual(headers["Retry-After"], "1")
                        self.assertEqual(body["error"]["type"], "rate_limit_error")
                    self.assertEqual(server.request("GET", "/health")[0], 200)
                    # Of several choices all are taken or none; for more than there are places the
                    # time will never come.
                    self.assertEqual(server.post({"messages": SUM, "n": 2})[0], 429)
                    status, _, body = server.post({"messages": SUM, "n": 3})
                    self.assertEqual((status, body["error"]["param"]), (400, "n"))
                    running.leave()
                    text = "".join(c["choices"][0]["delta"].get("content", "") for c in queued)
                    self.assertEqual(text, "7703")


class Leaving(unittest.TestCase):
    # With one place, whoever comes next is served only if the one before has gone.
    def test_a_client_that_leaves_frees_its_place(self):
        with Server("--max-running", 1) as server:
            for n in (1, 3):
                stream = server.open_stream(STORY, n=n, **LONG)
                next(iter(stream))
                stream.leave()
            waiting = server.connect()
            waiting.request("POST", "/v1/chat/completions", body_of(STORY, **LONG, n=20),
                            {"Content-Type": "application/json"})
            waiting.close()
            answer = server.chat(SUM, temperature=0)
            self.assertEqual(answer["choices"][0]["message"]["content"], "7703")


def body_of(messages, **fields):
    import json
    return json.dumps({"messages": messages, **fields})


class Draining(unittest.TestCase):
    def test_sigterm_finishes_what_is_open_and_refuses_what_is_new(self):
        with Server("--max-running", 2) as server:
            streams = [server.open_stream(SUM, temperature=0) for _ in range(4)]
            server.signal(signal.SIGTERM)
            while server.request("GET", "/health")[0] == 200:
                pass
            status, headers, body = server.post({"messages": STORY})
            self.assertEqual((status, headers["Retry-After"]), (503, "1"))
            self.assertEqual(body["error"]["type"], "service_unavailable")
            for stream in streams:
                text = "".join(c["choices"][0]["delta"].get("content", "") for c in stream)
                self.assertEqual(text, "7703")
                stream.leave()
            self.assertEqual(server.exit_code(), 0)

    def test_an_idle_server_ends_at_once_whatever_connections_are_open(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Server() as server:
                idle = server.connect()
                idle.request("GET", "/health")
                idle.getresponse().read()
                server.signal(number)
                self.assertEqual(server.exit_code(), 0)
                idle.close()

    def test_the_drain_timeout_cuts_off_what_takes_longer(self):
        with Server("--drain-timeout", 0.05, "--max-running", 1) as server:
            stream = server.open_stream(STORY, **LONG, n=20)
            next(iter(stream))
            server.signal(signal.SIGTERM)
            self.assertEqual(server.exit_code(), 0)
            stream.leave()

    def test_a_second_signal_ends_at_once(self):
        with Server("--drain-timeout", 3600, "--max-running", 1) as server:
            stream = server.open_stream(STORY, **LONG, n=20)
            next(iter(stream))
            server.signal(signal.SIGTERM)
            while server.request("GET", "/health")[0] == 200:
                pass
            server.signal(signal.SIGTERM)
            self.assertEqual(server.exit_code(), -signal.SIGTERM)
            stream.leave()


if __name__ == "__main__":
    main()
