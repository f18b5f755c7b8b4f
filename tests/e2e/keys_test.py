"""API keys: who may ask, how often, and who may run the server."""
import http.client
import json
import os
import subprocess
import tempfile
import unittest

from serving import SUM, TANDEM, Server, main

BODY = {"messages": SUM, "max_tokens": 1}


def ask(server, method, path, key=None, body=None, header="Authorization"):
    """(status, headers, body)"""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers[header] = "Bearer " + key if header == "Authorization" else key
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


class Keys(unittest.TestCase):
    def test_every_route_asks_for_its_key(self):
        with Server("--api-key", "one", "--api-key", "two", "--admin-api-key", "root") as server:
            chat = ("POST", "/v1/chat/completions")
            for key in (None, "", "on", "ONE"):
                status, headers, text = ask(server, *chat, key, BODY)
                self.assertEqual(status, 401)
                self.assertEqual(headers["WWW-Authenticate"], "Bearer")
                self.assertEqual(json.loads(text)["error"]["type"], "authentication_error")
            for key in ("one", "two", "root"):
                self.assertEqual(ask(server, *chat, key, BODY)[0], 200)
            self.assertEqual(ask(server, *chat, "two", BODY, header="x-api-key")[0], 200)
            for method, path in [("POST", "/v1/completions"), ("POST", "/generate"), ("POST", "/v1/messages"),
                                 ("POST", "/v1/responses"), ("POST", "/tokenize"), ("GET", "/v1/models"),
                                 ("GET", "/server_info"), ("GET", "/live"), ("POST", "/flush_cache")]:
                self.assertEqual(ask(server, method, path, None, {} if method == "POST" else None)[0], 401, path)
            for path in ("/health", "/ping", "/metrics", "/"):
                self.assertEqual(ask(server, "GET", path)[0], 200, path)
            message = json.loads(ask(server, "POST", "/v1/messages", None, {})[2])
            self.assertEqual((message["type"], message["error"]["type"]), ("error", "authentication_error"))
            for path, body in (("/flush_cache", None), ("/abort_request", {"rid": "x"})):
                self.assertEqual(ask(server, "POST", path, "one", body)[0], 403, path)
                self.assertEqual(ask(server, "POST", path, "root", body)[0], 200, path)

    def test_limits_of_a_key_bind_that_key_only(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
            json.dump([{"name": "slow", "key": "a", "requests_per_minute": 2},
                       {"name": "busy", "key": "b", "max_concurrent": 1, "weight": 3}], file)
        try:
            with Server("--api-key-file", file.name) as server:
                chat = ("POST", "/v1/chat/completions")
                self.assertEqual([ask(server, *chat, "a", BODY)[0] for _ in range(3)], [200, 200, 429])
                status, headers, text = ask(server, *chat, "a", BODY)
                self.assertEqual(status, 429)
                self.assertGreater(int(headers["Retry-After"]), 5)
                self.assertIn("2 requests a minute", json.loads(text)["error"]["message"])
                # One at a time: a second one is refused while an answer streams.
                # Without the tokens of the chat format an answer cannot end.
                long = {"messages": [{"role": "user", "content": "Repeat the word cat 5 times."}],
                        "logit_bias": {str(token): -100 for token in range(4064, 4096)}, "stream": True}
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                connection.request(*chat, json.dumps(long), {"Authorization": "Bearer b",
                                                             "Content-Type": "application/json"})
                answer = connection.getresponse()
                self.assertEqual(answer.status, 200)
                answer.readline()
                self.assertEqual(ask(server, *chat, "b", BODY)[0], 429)
                answer.close()
                connection.close()
                for _ in range(600):  # until the server has seen that its client is gone
                    if ask(server, *chat, "b", BODY)[0] == 200:
                        break
                else:
                    self.fail("the place was never free again")
        finally:
            os.unlink(file.name)

    def test_without_keys_the_controls_are_open_to_the_machine_itself_only(self):
        with Server() as server:
            self.assertEqual(ask(server, "POST", "/flush_cache")[0], 200)
        with Server("--host", "0.0.0.0") as server:
            self.assertEqual(ask(server, "POST", "/v1/chat/completions", None, BODY)[0], 200)
            status, _, text = ask(server, "POST", "/flush_cache")
            self.assertEqual(status, 403)
            self.assertIn("--admin-api-key", text)

    def test_bad_keys_end_the_start_in_one_line(self):
        for options in (["--api-key", ""], ["--api-key", "topsecret", "--api-key", "topsecret"],
                        ["--api-key-file", "/nowhere/keys"], ["--api-key", "topsecret", "/nowhere/model-key"]):
            done = subprocess.run([TANDEM, "serve", "--port", "0", *options], capture_output=True, text=True,
                                  timeout=60)
            self.assertEqual(done.returncode, 2, options)
            self.assertEqual(len(done.stderr.strip().splitlines()[-1:]), 1)
            self.assertNotIn("topsecret", done.stderr)
            self.assertIn("key", done.stderr)


if __name__ == "__main__":
    main()
