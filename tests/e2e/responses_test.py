"""POST /v1/responses, as OpenAI's clients use it."""
import json
import unittest

from serving import STORY, SUM, TIMER, Server, main

TIMER_TOOL = {"type": "function", **TIMER["function"]}
ASK_TIMER = "Set a timer for 12 minutes."


def post(server, **fields):
    return server.request("POST", "/v1/responses", json.dumps(fields))


def response(server, **fields):
    status, _, body = post(server, **{"temperature": 0, **fields})
    if status != 200:
        raise AssertionError("%d %s" % (status, body))
    return body


def events(server, **fields):
    connection = server.connect()
    try:
        connection.request("POST", "/v1/responses",
                           json.dumps({"temperature": 0, "stream": True, **fields}),
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        out = []
        for frame in answer.read().decode().split("\n\n")[:-1]:
            name, data = frame.split("\n")
            out.append(json.loads(data[len("data: "):]))
            assert name == "event: " + out[-1]["type"], frame
        return out
    finally:
        connection.close()


def joined(stream):
    """The last response of a stream; checks that its events are in order and add up to it."""
    assert [e["sequence_number"] for e in stream] == list(range(len(stream)))
    assert [e["type"] for e in stream[:2]] == ["response.created", "response.in_progress"]
    output, is_open = [], False
    for event in stream[2:-1]:
        kind = event["type"][len("response."):]
        if kind == "output_item.added":
            assert not is_open and event["output_index"] == len(output), event
            is_open = True
            output.append(event["item"])
            continue
        item = output[-1]
        assert is_open and event["output_index"] == len(output) - 1, event
        assert event.get("item_id", item["id"]) == item["id"], event
        if kind == "content_part.added":
            item["content"].append(event["part"])
        elif kind == "function_call_arguments.delta":
            item["arguments"] += event["delta"]
        elif kind in ("output_text.delta", "reasoning_text.delta"):
            item["content"][event["content_index"]]["text"] += event["delta"]
        elif kind == "output_item.done":
            is_open = False
            assert item == {**event["item"], "status": "in_progress"}, (item, event)
            output[-1] = event["item"]
        else:
            assert kind in ("output_text.done", "reasoning_text.done", "content_part.done",
                            "function_call_arguments.done"), kind
    last = stream[-1]["response"]
    assert not is_open and stream[-1]["type"] == "response." + last["status"]
    assert last["output"] == output, (last["output"], output)
    return last


def without_ids(body):
    """What two answers to one request have in common."""
    return {**body, "id": "", "created_at": 0, "output": [{**item, "id": ""} for item in body["output"]]}


class Responses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())

    def test_works_out_a_sum_and_accounts_for_it(self):
        body = response(self.server, model="demo", input=SUM, metadata={"k": "v"}, store=True)
        self.assertRegex(body["id"], "^resp_[0-9a-f]{24}$")
        self.assertEqual((body["object"], body["status"], body["model"]),
                         ("response", "completed", "demo"))
        self.assertEqual((body["store"], body["metadata"], body["temperature"]), (False, {"k": "v"}, 0))
        reasoning, message = body["output"]
        self.assertIn("=", reasoning["content"][0]["text"])
        self.assertEqual((message["role"], message["content"][0]["text"]), ("assistant", "7703"))
        usage = body["usage"]
        self.assertEqual(usage["total_tokens"], usage["input_tokens"] + usage["output_tokens"])
        self.assertTrue(0 < usage["output_tokens_details"]["reasoning_tokens"] < usage["output_tokens"])
        again = response(self.server, input=SUM)["usage"]
        self.assertGreater(again["input_tokens_details"]["cached_tokens"], 0)
        self.assertEqual(again["input_tokens"], usage["input_tokens"])
        # A chat of the same messages is the same prompt.
        chat = self.server.chat(SUM, temperature=0)["usage"]
        self.assertEqual(chat["prompt_tokens"], usage["input_tokens"])

    def test_a_stream_adds_up_to_the_whole_answer(self):
        cases = [dict(input=SUM), dict(input=STORY[0]["content"], max_output_tokens=20),
                 dict(input=STORY, reasoning={"effort": "none"}, instructions="Be brief."),
                 dict(input=ASK_TIMER, tools=[TIMER_TOOL]),
                 dict(input=ASK_TIMER, tools=[TIMER_TOOL], max_output_tokens=45),
                 dict(input=STORY, tools=[TIMER_TOOL], tool_choice="required"),
                 dict(input=SUM, text={"format": {"type": "json_object"}}, max_output_tokens=60)]
        for case in cases:
            with self.subTest(case):
                response(self.server, **case)  # from here on the cache has the prompt
                whole = response(self.server, **case)
                streamed = joined(events(self.server, **case))
                self.assertNotEqual(streamed["id"], whole["id"])
                self.assertEqual(without_ids(streamed), without_ids(whole))
                self.assertTrue(whole["output"])

    def test_an_answer_that_is_cut_off_is_incomplete(self):
        body = response(self.server, input=STORY, max_output_tokens=8, reasoning={"effort": "none"})
        self.assertEqual(body["status"], "incomplete")
        self.assertEqual(body["incomplete_details"], {"reason": "max_output_tokens"})
        self.assertEqual(body["output"][-1]["status"], "incomplete")
        self.assertEqual(body["usage"]["output_tokens"], 8)

    def test_calls_a_tool_and_goes_on_with_its_result(self):
        body = response(self.server, input=ASK_TIMER, tools=[TIMER_TOOL])
        call = body["output"][-1]
        self.assertEqual((call["type"], call["name"]), ("function_call", "set_timer"))
        self.assertEqual(json.loads(call["arguments"]), {"minutes": 12})
        self.assertEqual(body["tools"], [TIMER_TOOL])
        follow = [{"role": "user", "content": ASK_TIMER}, *body["output"],
                  {"type": "function_call_output", "call_id": call["call_id"], "output": "ok"}]
        body = response(self.server, input=follow, tools=[TIMER_TOOL])
        self.assertIn("12 minutes", body["output"][-1]["content"][0]["text"])
        self.assertGreater(body["usage"]["input_tokens_details"]["cached_tokens"], 0)

    def test_tool_choices_are_kept(self):
        ring = {"type": "function", "name": "ring", "parameters": {"type": "object", "properties": {}}}
        for choice, names in (("required", {"set_timer", "ring"}),
                              ({"type": "function", "name": "ring"}, {"ring"})):
            body = response(self.server, input=STORY, tools=[TIMER_TOOL, ring], tool_choice=choice,
                            parallel_tool_calls=False, max_output_tokens=200)
            calls = [i["name"] for i in body["output"] if i["type"] == "function_call"]
            self.assertTrue(len(calls) == 1 and set(calls) <= names, body)

    def test_text_follows_a_schema(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
                  "additionalProperties": False}
        body = response(self.server, input=SUM, reasoning={"effort": "none"},
                        text={"format": {"type": "json_schema", "name": "sum", "schema": schema}})
        self.assertIsInstance(json.loads(body["output"][-1]["content"][0]["text"])["n"], int)
        self.assertEqual(body["text"]["format"]["schema"], schema)

    def test_nothing_is_stored(self):
        answer = response(self.server, input=STORY, max_output_tokens=1)
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")):
            status, _, body = self.server.request(method, "/v1/responses/" + answer["id"] + path)
            self.assertEqual((status, body["error"]["type"]), (404, "not_found_error"))
        status, _, body = post(self.server, input="on", previous_response_id=answer["id"])
        self.assertEqual((status, body["error"]["param"]), (400, "previous_response_id"))

    def test_refusals_name_the_field(self):
        cases = [({"input": STORY, "model": "gpt"}, 404, "model"),
                 ({"input": STORY, "temperature": 3}, 400, "temperature"),
                 ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
                  400, "input[0].content[0].type"),
                 ({"input": STORY, "tools": [{**TIMER_TOOL, "strict": True,
                                              "parameters": {"type": "objekt"}}]},
                  400, "tools[0].parameters"),
                 ({"input": STORY, "text": {"format": {"type": "json_schema", "name": "n",
                                                       "schema": {"type": "objekt"}}}},
                  400, "text.format.schema"),
                 ({"input": "word " * 100_000}, 400, "input")]
        for fields, status, field in cases:
            for stream in (False, True):
                got, _, body = post(self.server, **fields, stream=stream)
                self.assertEqual((got, body["error"]["param"]), (status, field), body)


if __name__ == "__main__":
    main()
