"""What `tandem serve` refuses, and how. Each refusal leaves the server as it was."""
import http.client
import json
import unittest

from serving import STORY, TIMER, Server, main

LIMIT_MIB = 1


class Errors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--max-body-mib", LIMIT_MIB))

    def tearDown(self):
        self.assertEqual(self.server.request("GET", "/health")[0], 200)

    def expect(self, status, answer, param=None, code=None):
        got, headers, body = answer
        self.assertEqual(got, status, body)
        self.assertEqual(headers["Content-Type"], "application/json")
        self.assertEqual(list(body), ["error"])
        self.assertEqual(list(body["error"]), ["message", "type", "param", "code"])
        self.assertEqual((body["error"]["param"], body["error"]["code"]), (param, code))
        return body["error"]

    def test_names_the_field_that_is_wrong(self):
        wrong = {
            "temperature": -1, "top_p": 0, "top_k": -5, "min_p": 2, "presence_penalty": 3,
            "frequency_penalty": "x", "repetition_penalty": 0, "max_tokens": 0,
            "max_completion_tokens": 1.5, "seed": "a", "stop": "", "n": 0, "logprobs": 1,
            "top_logprobs": 5, "stream": "yes", "stream_options": {}, "tools": {},
            "tool_choice": "required", "reasoning_effort": "huge", "chat_template_kwargs": [],
            "continue_final_message": 0, "model": 7, "logit_bias": {"-1": 2},
        }
        for field, value in wrong.items():
            with self.subTest(field):
                error = self.expect(400, self.server.post({"messages": STORY, field: value}), field)
                self.assertEqual(error["type"], "invalid_request_error")
                self.assertIn(field, error["message"])

    def test_names_the_message_that_is_wrong(self):
        ask = {"role": "user", "content": "hi"}
        cases = [
            ([], "messages"),
            ([ask, {"role": "robot", "content": ""}], "messages[1].role"),
            ([{"role": "user", "content": None}], "messages[0].content"),
            ([ask, {"role": "tool", "content": "r"}], "messages[1].tool_call_id"),
            ([ask, {"role": "tool", "tool_call_id": "x", "content": "r"}], "messages[1].tool_call_id"),
            ([{**ask, "tools": [TIMER]}], "messages[0].tools"),
            ([{"role": "system", "content": "x", "tools": [TIMER]}], "messages[0].content"),
            ([ask, {"role": "assistant", "tool_calls": [
                {"function": {"name": "f", "arguments": "null"}}]}],
             "messages[1].tool_calls[0].function.arguments"),
        ]
        for messages, param in cases:
            with self.subTest(param):
                self.expect(400, self.server.post({"messages": messages}), param)
        self.expect(400, self.server.post({"messages": [ask], "continue_final_message": True}),
                    "messages[0]")

    def test_shapes_of_messages_that_are_served(self):
        ask = {"role": "user", "content": "hi"}
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1"}}
        for messages in (
                [{"role": "user", "content": []}],
                [{"role": "system", "content": "a"}, {"role": "system", "content": "b"}, ask],
                [ask, {"role": "assistant", "content": None}],
                [ask, {"role": "assistant", "content": None, "tool_calls": [call]},
                 {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "r"}]}],
                [ask, {"role": "assistant", "tool_calls": [
                    {**call, "function": {"name": "f", "arguments": ""}}]}]):
            with self.subTest(messages):
                self.server.chat(messages, max_tokens=1)

    def test_a_body_that_is_no_json(self):
        for body in ("", "{", "[]", '{"messages": [], "temperature": NaN}',
                     '{"messages": [], "top_p": Infinity}', "[" * 100000,
                     json.dumps({"messages": STORY}) + "x", b"\xff", '{"a":"\\ud800"}'):
            with self.subTest(body[:40]):
                self.expect(400, self.server.request("POST", "/v1/chat/completions", body))

    def test_a_body_too_large(self):
        self.expect(413, self.server.request("POST", "/v1/chat/completions",
                                             b" " * (LIMIT_MIB * 1024 * 1024 + 1)))

    def test_a_header_too_large(self):
        connection = self.server.connect()
        connection.request("GET", "/health", headers={"X-Long": "x" * (1 << 20)})
        self.assertEqual(connection.getresponse().status, 431)
        connection.close()

    def test_a_prompt_too_long_says_both_numbers(self):
        length = self.server.request("GET", "/v1/models")[2]["data"][0]["max_model_len"]
        message = [{"role": "user", "content": "a b " * length}]
        error = self.expect(400, self.server.post({"messages": message}), "messages",
                            "context_length_exceeded")
        self.assertIn(str(length), error["message"])
        self.assertRegex(error["message"], r"the prompt has \d{4,} tokens")

    def test_an_unknown_model_path_or_method(self):
        error = self.expect(404, self.server.post({"messages": STORY, "model": "gpt"}), "model",
                            "model_not_found")
        self.assertIn("demo", error["message"])
        self.expect(404, self.server.request("GET", "/v1/models/gpt"), "model", "model_not_found")
        self.expect(404, self.server.request("GET", "/nowhere"))
        answer = self.server.request("GET", "/v1/chat/completions")
        self.expect(405, answer)
        self.assertEqual(answer[1]["Allow"], "POST")
        self.expect(405, self.server.request("POST", "/health", "{}"))

    def test_a_body_of_another_type(self):
        self.expect(415, self.server.request("POST", "/v1/chat/completions", "a=b",
                                             "application/x-www-form-urlencoded"))

    def test_errors_of_a_stream_come_before_it_begins(self):
        self.expect(400, self.server.post({"messages": STORY, "stream": True, "n": 0}), "n")

    def test_something_that_is_no_http(self):
        connection = self.server.connect()
        connection.connect()
        connection.sock.sendall(b"\x16\x03\x01\x02\x00\x01\r\n\r\n")
        answer = http.client.HTTPResponse(connection.sock)
        answer.begin()
        self.expect(400, (answer.status, answer.headers, json.loads(answer.read())))
        answer.close()
        connection.close()


if __name__ == "__main__":
    main()
