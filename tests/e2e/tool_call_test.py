"""Tool calls over HTTP: what is asked for comes, and whole and streamed answers agree wherever they end."""
import json
import unittest

from serving import TIMER, Server, joined, main

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the current weather in a city.",
    "parameters": {"type": "object",
                   "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
                   "required": ["city"]}}}
TOOLS = [WEATHER, TIMER]
ASK = [{"role": "user", "content": "What is the weather in Paris in celsius?"}]
ARGUMENTS = '{"city": "Paris", "unit": "celsius"}'
SUM = [{"role": "user", "content": "What is 47 + 29?"}]


def named(name):
    return {"type": "function", "function": {"name": name}}


class ToolCalls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())

    def both(self, messages, **fields):
        """The choice of a whole answer, after the same as a stream was compared with it."""
        fields = dict(temperature=0, tools=TOOLS, **fields)
        whole, = self.server.chat(messages, **fields)["choices"]
        message, finish = joined(self.server.stream(messages, **fields))
        self.assertEqual(finish, whole["finish_reason"])
        self.assertEqual(message, whole["message"])
        return whole

    def test_case_c56_a_truncated_call_is_left_out_whole_and_a_true_prefix_streamed(self):
        fields = dict(temperature=0, tools=TOOLS)
        length = self.server.chat(ASK, **fields)["usage"]["completion_tokens"]
        seen = set()
        for most in range(1, length + 1):
            with self.subTest(max_tokens=most):
                whole, = self.server.chat(ASK, max_tokens=most, **fields)["choices"]
                message, finish = joined(self.server.stream(ASK, max_tokens=most, **fields))
                self.assertEqual(finish, whole["finish_reason"])
                self.assertEqual(message.get("reasoning_content"),
                                 whole["message"].get("reasoning_content"))
                streamed = "".join(call["function"]["arguments"]
                                   for call in message.get("tool_calls", []))
                self.assertTrue(ARGUMENTS.startswith(streamed), streamed)
                seen.add(streamed)
                if finish == "tool_calls":
                    call, = whole["message"]["tool_calls"]
                    self.assertEqual((call["function"]["arguments"], streamed), (ARGUMENTS,) * 2)
                else:
                    self.assertEqual(finish, "length")
                    self.assertNotIn("tool_calls", whole["message"])
        self.assertGreater(len(seen), 5)  # the arguments stream in pieces

    def test_case_c59_ids_of_any_server_come_back_and_new_ones_go_on_counting(self):
        given = ["functions.get_weather:0", "call00003", "functions_get_weather_0",
                 "functionsget_weather0", "0b6a0c9e-7c39-4f8e-9d0a-5a3f1d0c2b11"]
        prompts = set()
        for identifier in given:
            with self.subTest(identifier):
                messages = ASK + [
                    {"role": "assistant", "content": None, "tool_calls": [
                        {"id": identifier, "type": "function",
                         "function": {"name": "get_weather", "arguments": ARGUMENTS}}]},
                    {"role": "tool", "tool_call_id": identifier, "content": "18 degrees, sunny"},
                    {"role": "assistant", "content": "It is 18 degrees celsius and sunny in Paris."},
                    {"role": "user", "content": "Set a timer for 12 minutes."}]
                choice = self.both(messages)
                call, = choice["message"]["tool_calls"]
                self.assertEqual(call["function"],
                                 {"name": "set_timer", "arguments": '{"minutes": 12}'})
                self.assertEqual(call["id"], "set_timer_1")
                prompts.add(self.server.chat(messages, tools=TOOLS, max_tokens=1)["usage"]
                            ["prompt_tokens"])
        # The model sees the name of the tool and the place of the call, never the id.
        self.assertEqual(len(prompts), 1)

    def test_case_c60_auto_calls_where_a_tool_is_needed(self):
        for fields in ({}, {"tool_choice": "auto"}, {"parallel_tool_calls": False}):
            with self.subTest(fields):
                choice = self.both(ASK, **fields)
                call, = choice["message"]["tool_calls"]
                self.assertEqual(call["function"], {"name": "get_weather", "arguments": ARGUMENTS})
                self.assertEqual(choice["finish_reason"], "tool_calls")

    def test_case_c60_required_calls_even_where_none_is_needed(self):
        for effort in ("max", "none"):
            for parallel in (True, False):
                with self.subTest(effort=effort, parallel=parallel):
                    choice = self.both(SUM, tool_choice="required", reasoning_effort=effort,
                                       parallel_tool_calls=parallel, max_tokens=2000)
                    self.assertEqual(choice["finish_reason"], "tool_calls")
                    calls = choice["message"]["tool_calls"]
                    if not parallel:
                        self.assertEqual(len(calls), 1)
                    for call in calls:
                        self.assertIn(call["function"]["name"], ("get_weather", "set_timer"))
                        self.assertIsInstance(json.loads(call["function"]["arguments"]), dict)

    def test_case_c60_a_named_tool_is_the_one_called(self):
        for effort in ("max", "none"):
            with self.subTest(effort):
                choice = self.both(ASK, tool_choice=named("set_timer"), reasoning_effort=effort,
                                   max_tokens=2000)
                self.assertEqual(choice["finish_reason"], "tool_calls")
                for call in choice["message"]["tool_calls"]:
                    self.assertEqual(call["function"]["name"], "set_timer")
                    minutes = json.loads(call["function"]["arguments"])["minutes"]
                    self.assertIsInstance(minutes, (int, float))

    def test_case_c60_what_cannot_be_called_is_refused_before_a_stream_begins(self):
        cases = [dict(tools=TOOLS, tool_choice=named("send_mail")),
                 dict(tools=TOOLS, tool_choice="always"),
                 dict(tools=TOOLS, tool_choice={"type": "function"}),
                 dict(tool_choice="required"), dict(tools=[], tool_choice="required"),
                 dict(tool_choice=named("set_timer"))]
        for fields in cases:
            for stream in (False, True):
                with self.subTest(fields, stream=stream):
                    status, _, body = self.server.post(
                        {"messages": ASK, "stream": stream, **fields})
                    self.assertEqual(status, 400, body)
                    self.assertRegex(body["error"]["param"], "^tool_choice")


if __name__ == "__main__":
    main()
