"""POST /v1/messages and its count_tokens, as Anthropic's clients use them."""
import json
import unittest

from serving import STORY, SUM, TIMER, Server, main

TIMER_TOOL = {"name": TIMER["function"]["name"], "description": TIMER["function"]["description"],
              "input_schema": TIMER["function"]["parameters"]}
ASK_TIMER = [{"role": "user", "content": "Set a timer for 12 minutes."}]
THINK = {"type": "enabled", "budget_tokens": 1024}


def post(server, path="/v1/messages", **fields):
    return server.request("POST", path, json.dumps(fields))


def message(server, **fields):
    status, _, body = post(server, **{"model": "demo", "max_tokens": 200, "temperature": 0, **fields})
    if status != 200:
        raise AssertionError("%d %s" % (status, body))
    return body


def events(server, **fields):
    """(name, data) of every event of a stream."""
    connection = server.connect()
    try:
        connection.request("POST", "/v1/messages",
                           json.dumps({"model": "demo", "max_tokens": 200, "temperature": 0,
                                       "stream": True, **fields}),
                           {"Content-Type": "application/json", "x-api-key": "none",
                            "anthropic-version": "2023-06-01"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        out = []
        for frame in answer.read().decode().split("\n\n")[:-1]:
            name, data = frame.split("\n")
            out.append((name[len("event: "):], json.loads(data[len("data: "):])))
        return out
    finally:
        connection.close()


def joined(stream):
    """The message that a stream adds up to; checks the order of its events."""
    names = [name for name, data in stream if name != "ping"]
    assert names[0] == "message_start" and names[-2:] == ["message_delta", "message_stop"], names
    assert [name for name, _ in stream].count("ping") >= 1
    assert all(name == data["type"] for name, data in stream)
    body, is_open, partial = None, False, ""
    for name, data in stream:
        if name == "message_start":
            body = data["message"]
            assert body["content"] == [] and body["stop_reason"] is None
        elif name == "content_block_start":
            assert not is_open and data["index"] == len(body["content"]), data
            is_open, partial = True, ""
            body["content"].append(data["content_block"])
        elif name == "content_block_delta":
            assert is_open and data["index"] == len(body["content"]) - 1, data
            block, delta = body["content"][-1], data["delta"]
            key = {"text_delta": "text", "thinking_delta": "thinking",
                   "signature_delta": "signature"}.get(delta["type"])
            if key:
                block[key] += delta[key]
            else:
                assert delta["type"] == "input_json_delta" and block["type"] == "tool_use", data
                partial += delta["partial_json"]
        elif name == "content_block_stop":
            assert is_open and data["index"] == len(body["content"]) - 1, data
            is_open = False
            if partial:
                body["content"][-1]["input"] = json.loads(partial)
        elif name == "message_delta":
            assert not is_open
            body.update(data["delta"], usage=data["usage"])
    return body


class Messages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())

    def test_works_out_a_sum_and_accounts_for_it(self):
        body = message(self.server, messages=SUM, thinking=THINK)
        self.assertRegex(body["id"], "^msg_[0-9a-f]{24}$")
        self.assertEqual((body["type"], body["role"], body["model"]), ("message", "assistant", "demo"))
        thinking, text = body["content"]
        self.assertIn("=", thinking["thinking"])
        self.assertTrue(thinking["signature"])
        self.assertEqual(text, {"type": "text", "text": "7703"})
        self.assertEqual((body["stop_reason"], body["stop_sequence"]), ("end_turn", None))
        again = message(self.server, messages=SUM, thinking=THINK)["usage"]
        self.assertGreater(again["cache_read_input_tokens"], 0)
        for usage in body["usage"], again:
            self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"],
                             self.count(messages=SUM, thinking=THINK))
            self.assertEqual(usage["output_tokens"], again["output_tokens"])

    def count(self, **fields):
        status, _, body = post(self.server, "/v1/messages/count_tokens", model="demo", **fields)
        self.assertEqual(status, 200, body)
        self.assertEqual(list(body), ["input_tokens"])
        return body["input_tokens"]

    def test_thinks_only_if_asked_to(self):
        for fields in ({}, {"thinking": {"type": "disabled"}}):
            body = message(self.server, messages=STORY, max_tokens=8, **fields)
            self.assertEqual([b["type"] for b in body["content"]], ["text"])
            self.assertEqual(body["stop_reason"], "max_tokens")
            self.assertEqual(body["usage"]["output_tokens"], 8)

    def test_a_stream_adds_up_to_the_whole_answer(self):
        cases = [dict(messages=SUM, thinking=THINK), dict(messages=STORY, max_tokens=20),
                 dict(messages=STORY, stop_sequences=["time", "."]),
                 dict(messages=ASK_TIMER, tools=[TIMER_TOOL]),
                 dict(messages=ASK_TIMER, tools=[TIMER_TOOL], thinking={"type": "adaptive"},
                      output_config={"effort": "low"}),
                 dict(messages=STORY, tools=[TIMER_TOOL], tool_choice={"type": "any"})]
        for case in cases:
            with self.subTest(case):
                message(self.server, **case)  # from here on the cache has the prompt
                whole = message(self.server, **case)
                streamed = joined(events(self.server, **case))
                self.assertNotEqual(whole.pop("id"), streamed.pop("id"))
                self.assertEqual(streamed, whole)
                self.assertTrue(whole["content"])

    def test_calls_a_tool_and_goes_on_with_its_result(self):
        body = message(self.server, messages=ASK_TIMER, tools=[TIMER_TOOL], thinking=THINK)
        self.assertEqual(body["stop_reason"], "tool_use")
        call = body["content"][-1]
        self.assertEqual((call["type"], call["name"], call["input"]),
                         ("tool_use", "set_timer", {"minutes": 12}))
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "ok"}
        follow = ASK_TIMER + [{"role": "assistant", "content": body["content"]},
                              {"role": "user", "content": [result]}]
        body = message(self.server, messages=follow, tools=[TIMER_TOOL], thinking=THINK)
        self.assertIn("12 minutes", body["content"][-1]["text"])
        self.assertEqual(body["stop_reason"], "end_turn")
        self.assertGreater(body["usage"]["cache_read_input_tokens"], 0)

    def test_tool_choices_are_kept(self):
        other = {"name": "ring", "input_schema": {"type": "object", "properties": {}}}
        for choice, names in (({"type": "any", "disable_parallel_tool_use": True}, {"set_timer", "ring"}),
                              ({"type": "tool", "name": "ring"}, {"ring"})):
            body = message(self.server, messages=STORY, tools=[TIMER_TOOL, other], tool_choice=choice)
            calls = [b["name"] for b in body["content"] if b["type"] == "tool_use"]
            self.assertTrue(calls and set(calls) <= names, body)
        body = message(self.server, messages=ASK_TIMER, tools=[TIMER_TOOL], tool_choice={"type": "none"},
                       max_tokens=30)
        self.assertNotIn("tool_use", [b["type"] for b in body["content"]])

    def test_content_follows_a_schema(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
                  "additionalProperties": False}
        body = message(self.server, messages=SUM,
                       output_config={"format": {"type": "json_schema", "schema": schema}})
        self.assertIsInstance(json.loads(body["content"][-1]["text"])["n"], int)

    def test_stops_at_a_sequence_and_says_which(self):
        text = message(self.server, messages=STORY, max_tokens=20)["content"][0]["text"]
        body = message(self.server, messages=STORY, max_tokens=20, stop_sequences=["never", text[10:14]])
        self.assertEqual(body["content"][0]["text"], text[:text.index(text[10:14])])
        self.assertEqual((body["stop_reason"], body["stop_sequence"]), ("stop_sequence", text[10:14]))

    def test_goes_on_with_a_message_that_is_begun(self):
        begun = STORY + [{"role": "assistant", "content": "Once upon a time there was a small cat"}]
        body = message(self.server, messages=begun, max_tokens=8)
        self.assertNotIn("Once upon", body["content"][0]["text"])

    def test_the_system_prompt_counts_and_its_billing_line_does_not(self):
        bare, text = self.count(messages=STORY), {"type": "text", "text": "Be brief."}
        brief = self.count(messages=STORY, system=[text])
        billed = {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=0a1b2;"}
        self.assertGreater(brief, bare)
        self.assertEqual(self.count(messages=STORY, system=[billed, text]), brief)
        self.assertEqual(self.count(messages=STORY, system="Be brief."), brief)
        # A count says how long a prompt is that does not fit.
        self.assertGreater(self.count(messages=[{"role": "user", "content": "word " * 100_000}]), 100_000)

    def test_refusals_have_anthropics_shape_and_name_the_field(self):
        base = {"max_tokens": 5, "messages": STORY}
        cases = [({"messages": STORY}, 400, "invalid_request_error", "max_tokens"),
                 ({**base, "model": "claude"}, 404, "not_found_error", "model"),
                 ({**base, "temperature": 2}, 400, "invalid_request_error", "temperature"),
                 ({**base, "messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
                  400, "invalid_request_error", "messages.0.content.0.type"),
                 ({**base, "tools": [{**TIMER_TOOL, "strict": True,
                                      "input_schema": {"type": "objekt"}}]},
                  400, "invalid_request_error", "tools.0.input_schema"),
                 ({**base, "messages": [{"role": "user", "content": "word " * 100_000}]},
                  400, "invalid_request_error", "messages")]
        for fields, status, kind, field in cases:
            for stream in (False, True):
                got, _, body = post(self.server, **fields, stream=stream)
                self.assertEqual((got, body["type"], body["error"]["type"]), (status, "error", kind), body)
                self.assertTrue(body["error"]["message"].startswith(field + ":"), body)
        status, _, body = post(self.server, "/v1/messages/count_tokens", messages=[])
        self.assertEqual((status, body["error"]["type"]), (400, "invalid_request_error"))


if __name__ == "__main__":
    main()
