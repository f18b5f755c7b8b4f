"""Answers that have to follow a schema, an expression, a grammar or a tool, over HTTP (case C63)."""
import json
import threading
import time
import unittest

from serving import STORY, SUM, TIMER, Server, joined, main


def schema_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


NUMBER = {"type": "object", "properties": {"sum": {"type": "integer"}, "sure": {"type": "boolean"}},
          "required": ["sum", "sure"], "additionalProperties": False}
STRICT = {"type": "function", "function": {
    "name": "log_mood", "strict": True,
    "parameters": {"type": "object", "properties": {
        "mood": {"enum": ["good", "bad"]}, "score": {"type": "integer", "minimum": 1, "maximum": 5}},
        "required": ["mood", "score"], "additionalProperties": False}}}

# What a hostile or careless client sends, the field that the answer names, and a word of the reason.
BAD_FORMATS = [
    ({"response_format": schema_format({"type": "strnig"})}, "response_format.json_schema.schema", "#/type"),
    ({"response_format": schema_format({"$ref": "#/$defs/none"})}, "response_format.json_schema.schema", "$ref"),
    ({"response_format": schema_format({"$ref": "#"})}, "response_format.json_schema.schema", ""),
    ({"response_format": schema_format({"properties": {"a": {"not": {}}}})},
     "response_format.json_schema.schema", "#/properties/a/not"),
    # Kimi K3 is shown the schema, so a large one is a long prompt.
    ({"response_format": schema_format({"enum": ["x" * 1000] * 5000})}, "messages", "tokens"),
    ({"regex": "abcde" * 1000000}, "regex", "bytes"),
    ({"response_format": {"type": "structural_tag"}}, "response_format.type", "json_schema"),
    ({"regex": "["}, "regex", ""),
    ({"regex": "(a|b"}, "regex", ""),
    ({"regex": "(a{1000}){1000}"}, "regex", ""),
    ({"ebnf": "this is ::= not ::= a grammar"}, "ebnf", ""),
    ({"ebnf": "root ::= root \"a\""}, "ebnf", ""),
    ({"guided_choice": []}, "guided_choice", ""),
    ({"regex": "a", "response_format": {"type": "json_object"}}, "regex", "response_format"),
    ({"tools": [{"type": "function", "function": {
        "name": "f", "strict": True, "parameters": {"type": "object", "properties": {"a": {"if": {}}}}}}]},
     "tools[0].function.parameters", "#/properties/a/if"),
    ({"tools": [TIMER], "tool_choice": {"type": "function", "function": {"name": "other"}}},
     "tool_choice.function.name", "other"),
]


class StructuredOutput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def content(self, messages=SUM, **fields):
        choice, = self.server.chat(messages, **{"temperature": 0, **fields})["choices"]
        self.assertEqual(choice["finish_reason"], "stop")
        return choice["message"]["content"]

    def test_a_schema_binds_the_response_and_not_the_thinking(self):
        whole = self.server.chat(SUM, temperature=0, response_format=schema_format(NUMBER))
        message = whole["choices"][0]["message"]
        self.assertEqual(set(json.loads(message["content"])), {"sum", "sure"})
        self.assertNotIn("\n", message["content"])
        self.assertTrue(message["reasoning_content"])
        streamed, finish = joined(self.server.stream(SUM, temperature=0, response_format=schema_format(NUMBER)))
        self.assertEqual((streamed, finish), (message, "stop"))

    def test_every_spelling(self):
        off = {"reasoning_effort": "none"}
        # Left to itself the model may begin a string that it never ends.
        choice, = self.server.chat(SUM, temperature=0, max_tokens=200, response_format={"type": "json_object"},
                                   **off)["choices"]
        self.assertTrue(choice["message"]["content"].lstrip().startswith("{"))
        if choice["finish_reason"] == "stop":
            self.assertIsInstance(json.loads(choice["message"]["content"]), dict)
        self.assertRegex(self.content(regex="[0-9]{4}!", **off), r"^[0-9]{4}!$")
        self.assertIn(self.content(structured_outputs={"choice": ["yes", "no."]}, **off), ("yes", "no."))
        self.assertRegex(self.content(ebnf="root ::= \"<\" [a-z]{2,4} \">\"", **off), r"^<[a-z]{2,4}>$")
        self.assertIs(json.loads(self.content(guided_json={"const": True}, **off)), True)
        self.assertIs(json.loads(self.content(json_schema='{"type": "null"}', **off)), None)

    def test_choices_are_bound_each_and_differ(self):
        answer = self.server.chat(STORY, temperature=1.5, seed=1, n=4, regex="[a-z]{12}", reasoning_effort="none")
        texts = [choice["message"]["content"] for choice in answer["choices"]]
        for text in texts:
            self.assertRegex(text, "^[a-z]{12}$")
        self.assertGreater(len(set(texts)), 1)

    def test_a_length_limit_leaves_a_beginning(self):
        choice, = self.server.chat(SUM, temperature=0, regex="x{200}", max_tokens=3,
                                   reasoning_effort="none")["choices"]
        self.assertEqual(choice["finish_reason"], "length")
        self.assertRegex(choice["message"]["content"], "^x+$")

    def test_c60_tool_choice_is_kept(self):
        fields = dict(tools=[TIMER, STRICT], temperature=0, reasoning_effort="none", max_tokens=600,
                      parallel_tool_calls=False)
        named = {"type": "function", "function": {"name": "log_mood"}}
        for choice in ("required", named):
            whole, = self.server.chat(STORY, tool_choice=choice, **fields)["choices"]
            self.assertEqual(whole["finish_reason"], "tool_calls")
            call, = whole["message"]["tool_calls"]
            if choice is named:
                self.assertEqual(call["function"]["name"], "log_mood")
                arguments = json.loads(call["function"]["arguments"])
                self.assertIn(arguments["mood"], ("good", "bad"))
                self.assertIn(arguments["score"], range(1, 6))
            streamed, finish = joined(self.server.stream(STORY, tool_choice=choice, **fields))
            self.assertEqual((streamed, finish), (whole["message"], "tool_calls"))
        none, = self.server.chat([{"role": "user", "content": "Set a timer for 12 minutes."}],
                                 tool_choice="none", **fields)["choices"]
        self.assertNotIn("tool_calls", none["message"])
        auto, = self.server.chat([{"role": "user", "content": "Set a timer for 12 minutes."}],
                                 **{**fields, "reasoning_effort": "max"})["choices"]
        self.assertEqual(auto["message"]["tool_calls"][0]["function"]["name"], "set_timer")

    def test_c63_bad_sources_are_refused_fast_and_streams_go_on(self):
        alone = joined(self.server.stream(STORY, temperature=0, max_tokens=300))
        answers = []
        streams = [threading.Thread(target=lambda: answers.append(
            joined(self.server.stream(STORY, temperature=0, max_tokens=300)))) for _ in range(4)]
        for stream in streams:
            stream.start()
        for fields, field, word in BAD_FORMATS:
            with self.subTest(field=field, fields=str(fields)[:80]):
                begin = time.monotonic()
                status, _, body = self.server.post({"messages": SUM, **fields})
                # 2 s would do on an idle machine; this one may be shared.
                self.assertLess(time.monotonic() - begin, 20)
                self.assertEqual(status, 400, body)
                self.assertEqual(body["error"]["param"], field)
                self.assertTrue(body["error"]["message"].startswith(field) or field == "messages", body)
                self.assertIn(word, body["error"]["message"])
                self.assertLess(len(body["error"]["message"]), 1000)
        for stream in streams:
            stream.join()
        self.assertEqual(answers, [alone] * 4)

    def test_recursion_is_fine(self):
        tree = {"type": "object", "properties": {"v": {"type": "integer", "minimum": 0, "maximum": 9},
                                                 "next": {"$ref": "#"}},
                "required": ["v"], "additionalProperties": False}
        value = json.loads(self.content(response_format=schema_format(tree), reasoning_effort="none"))
        depth = 0
        while value is not None:
            self.assertIn(value["v"], range(10))
            value, depth = value.get("next"), depth + 1
        self.assertGreaterEqual(depth, 1)


if __name__ == "__main__":
    main()
