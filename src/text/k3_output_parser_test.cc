#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

#include "text/json_text.h"
#include "text/output_parser.h"
#include "text/test_support.h"
#include "text/utf8.h"

namespace tandem {
namespace {

using Ids = std::vector<TokenId>;
using Kind = OutputEvent::Kind;

// One token a byte and one a marker: every character and every delta is cut wherever it can be.
const Tokenizer& bytes() {
  static const auto tokenizer = byte_k3_tokenizer();
  return *tokenizer;
}

OutputParserOptions options(OutputStart start, std::vector<std::string> tools = {"f"}) {
  OutputParserOptions result;
  result.start = start;
  result.tool_names = std::move(tools);
  return result;
}

struct Parsed {
  Answer answer;
  AnswerEnd end = AnswerEnd::kStop;
  std::vector<OutputEvent> events;
};

Parsed parse(const Tokenizer& tokenizer, const Ids& ids, const OutputParserOptions& with,
             AnswerEnd end = AnswerEnd::kStop) {
  const auto parser = make_output_parser(ChatFamily::kK3, tokenizer, with);
  Parsed parsed;
  const auto take = [&](const std::vector<OutputEvent>& events) {
    for (const OutputEvent& event : events) {
      parsed.answer.add(event);
      parsed.events.push_back(event);
    }
  };
  for (const TokenId id : ids) take(parser->feed(id));
  const OutputParser::Finish finish = parser->finish(end);
  take(finish.events);
  parsed.end = finish.end;
  return parsed;
}

// `text` with its markers as tokens.
Parsed parse(const std::string& text, OutputStart start = OutputStart::kResponse) {
  return parse(bytes(), bytes().encode_markup(text), options(start));
}

std::string open(const std::string& tag) { return "<|open|>" + tag + "<|sep|>"; }
std::string close(const std::string& tag) { return "<|close|>" + tag + "<|sep|>"; }
std::string argument(const std::string& attributes, const std::string& value) {
  return open("argument" + attributes) + value + close("argument");
}
std::string call(const std::string& attributes, const std::string& body) {
  return open("call" + attributes) + body + close("call");
}
std::string tools(const std::string& calls) { return open("tools") + calls + close("tools"); }

TEST(K3OutputParser, separates_thinking_from_the_response) {
  const Parsed parsed =
      parse("Hm, 4.\n" + close("think") + "junk" + open("response") + " It is 4. 🫠" +
                close("response") + close("message") + "<|end_of_msg|>after",
            OutputStart::kThinking);
  EXPECT_EQ(parsed.answer.reasoning, "Hm, 4.\n");
  EXPECT_EQ(parsed.answer.content, " It is 4. 🫠");
  EXPECT_EQ(parsed.end, AnswerEnd::kStop);
}

TEST(K3OutputParser, starts_in_the_response_where_the_prompt_opened_it) {
  EXPECT_EQ(parse("4" + close("response")).answer.content, "4");
  EXPECT_EQ(parse(open("think") + "a" + close("think") + open("response") + "b").answer.reasoning,
            "a");
}

TEST(K3OutputParser, an_echoed_opening_is_swallowed) {
  const Parsed parsed =
      parse(open("think") + "a" + close("think") + open("response") + "b", OutputStart::kThinking);
  EXPECT_EQ(parsed.answer.reasoning, "a");
  EXPECT_EQ(parsed.answer.content, "b");
}

TEST(K3OutputParser, a_channel_opens_though_the_last_was_not_closed) {
  const Parsed parsed =
      parse("a" + open("response") + "b" + open("tools") + call(" tool=\"f\"", ""),
            OutputStart::kThinking);
  EXPECT_EQ(parsed.answer.reasoning, "a");
  EXPECT_EQ(parsed.answer.content, "b");
  ASSERT_EQ(parsed.answer.tool_calls.size(), 1u);
}

TEST(K3OutputParser, markers_in_ordinary_characters_are_text) {
  const std::string typed = "see <|close|>response<|sep|> and <|open|>tools<|sep|>";
  const Parsed parsed =
      parse(bytes(), bytes().encode_plain(typed), options(OutputStart::kResponse));
  EXPECT_EQ(parsed.answer.content, typed);
}

TEST(K3OutputParser, a_typed_marker_stays_inside_an_argument) {
  const std::string typed = "a<|close|>argument<|sep|>b";
  Ids ids =
      bytes().encode_markup(open("tools") + open("call tool=\"f\"") + open("argument key=\"k\""));
  const Ids value = bytes().encode_plain(typed);
  const Ids rest = bytes().encode_markup(close("argument") + close("call"));
  ids.insert(ids.end(), value.begin(), value.end());
  ids.insert(ids.end(), rest.begin(), rest.end());
  const Parsed parsed = parse(bytes(), ids, options(OutputStart::kResponse));
  ASSERT_EQ(parsed.answer.tool_calls.size(), 1u);
  EXPECT_EQ(parsed.answer.tool_calls[0].arguments, "{\"k\": \"" + typed + "\"}");
}

TEST(K3OutputParser, an_unfinished_marker_is_never_shown) {
  EXPECT_EQ(parse("ok<|close|>resp").answer.content, "ok");
  EXPECT_EQ(parse("ok<|open|>").answer.content, "ok");
  EXPECT_EQ(parse("ok<|open|>x<|close|>response<|sep|>").answer.content, "ok");
  EXPECT_EQ(parse("o<|sep|>k" + open("unknown") + "!").answer.content, "ok!");
}

TEST(K3OutputParser, other_special_tokens_are_left_out_and_stop_tokens_end) {
  EXPECT_EQ(parse("a<|media_pad|>b[EOS]c").answer.content, "ab");
  EXPECT_EQ(parse("ab[EOT]c").answer.content, "ab");
}

TEST(K3OutputParser, a_half_character_before_a_marker_becomes_a_replacement) {
  Ids ids = {0xF0, 0x9F};
  const Ids rest = bytes().encode_markup(close("think") + open("response"));
  ids.insert(ids.end(), rest.begin(), rest.end());
  ids.push_back(0xC3);
  const Parsed parsed = parse(bytes(), ids, options(OutputStart::kThinking));
  EXPECT_EQ(parsed.answer.reasoning, "\uFFFD");
  EXPECT_EQ(parsed.answer.content, "\uFFFD");
}

TEST(K3OutputParser, arguments_become_json_by_their_types) {
  const Parsed parsed = parse(tools(call(
      " tool=\"f\" index=\"1\"",
      argument(" key=\"s\" type=\"string\"", "a \"quoted\"\nline 🫠") +
          argument(" key=\"untyped\"", "5") + argument(" key=\"n\" type=\"number\"", "1.50") +
          argument(" key=\"b\" type=\"boolean\"", "true") +
          argument(" key=\"o\" type=\"object\"", "{\"k\":[1,null]}") +
          argument(" key=\"bad\" type=\"array\"", "[1,") + argument(" type=\"string\"", "no key") +
          argument(" key=\"k&quot;&amp;quot;\" type=\"string\"", ""))));
  ASSERT_EQ(parsed.answer.tool_calls.size(), 1u);
  EXPECT_EQ(parsed.answer.tool_calls[0].name, "f");
  EXPECT_EQ(parsed.answer.tool_calls[0].id, "f_0");
  EXPECT_EQ(
      parsed.answer.tool_calls[0].arguments,
      "{\"s\": \"a \\\"quoted\\\"\\nline 🫠\", \"untyped\": \"5\", \"n\": 1.5, \"b\": true, "
      "\"o\": {\"k\": [1, null]}, \"bad\": \"[1,\", \"k\\\"&quot;\": \"\"}");
  EXPECT_EQ(parsed.end, AnswerEnd::kToolCalls);
}

TEST(K3OutputParser, an_argument_ends_where_the_next_one_or_the_call_does) {
  const Parsed parsed = parse(tools(call(
      " tool=\"f\"", open("argument key=\"a\"") + "1" + open("argument key=\"b\" type=\"number\"") +
                         "2" + open("argument key=\"c\"") + "3")));
  ASSERT_EQ(parsed.answer.tool_calls.size(), 1u);
  EXPECT_EQ(parsed.answer.tool_calls[0].arguments, "{\"a\": \"1\", \"b\": 2, \"c\": \"3\"}");
}

TEST(K3OutputParser, string_arguments_stream_as_they_come) {
  const auto parser = make_output_parser(ChatFamily::kK3, bytes(), options(OutputStart::kResponse));
  std::string arguments;
  for (const TokenId id :
       bytes().encode_markup(open("tools") + open("call tool=\"f\"") +
                             open("argument key=\"k\" type=\"string\"") + "ab")) {
    for (const OutputEvent& event : parser->feed(id)) arguments += event.text;
  }
  EXPECT_EQ(arguments, "{\"k\": \"ab");
}

TEST(K3OutputParser, a_json_block_counts_if_it_is_the_whole_call) {
  const auto arguments_of = [](const std::string& body) {
    const Parsed parsed = parse(tools(call(" tool=\"f\"", body)));
    return parsed.answer.tool_calls.size() == 1 ? parsed.answer.tool_calls[0].arguments : "no call";
  };
  const std::string json = open("json type=\"object\"");
  EXPECT_EQ(arguments_of(""), "{}");
  EXPECT_EQ(arguments_of(json + "{\"a\":1}" + close("json")), "{\"a\": 1}");
  EXPECT_EQ(arguments_of(json + "{\"a\":1"), "{\"a\":1");
  EXPECT_EQ(arguments_of(json + "[1]" + close("json")), "[1]");
  EXPECT_EQ(arguments_of(json + "{}" + close("json") + argument(" key=\"k\"", "v")),
            "{\"k\": \"v\"}");
  EXPECT_EQ(arguments_of(argument(" key=\"k\"", "v") + json + "{}" + close("json")),
            "{\"k\": \"v\"}");
}

TEST(K3OutputParser, ids_count_over_the_conversation) {
  OutputParserOptions with = options(OutputStart::kResponse);
  with.tool_calls_before = 3;
  const Parsed parsed = parse(bytes(),
                              bytes().encode_markup(tools(call(" tool=\"f\" index=\"7\"", "") +
                                                          call(" tool=\"a&amp;b&quot;c\"", ""))),
                              with);
  ASSERT_EQ(parsed.answer.tool_calls.size(), 2u);
  EXPECT_EQ(parsed.answer.tool_calls[0].id, "f_3");
  EXPECT_EQ(parsed.answer.tool_calls[1].id, "a&b\"c_4");
  EXPECT_EQ(parsed.answer.tool_calls[1].name, "a&b\"c");
}

TEST(K3OutputParser, a_call_without_its_own_close_is_void) {
  const std::string opened = open("call tool=\"f\"") + open("argument key=\"k\"") + "v";
  for (const std::string& text :
       {open("tools") + opened, tools(opened), open("tools") + opened + close("message"),
        open("tools") + opened + "<|end_of_msg|>", open("tools") + opened + open("response"),
        open("tools") + opened + "<|close|>call"}) {
    const Parsed parsed = parse(text);
    EXPECT_TRUE(parsed.answer.tool_calls.empty()) << text;
    EXPECT_EQ(parsed.end, AnswerEnd::kStop) << text;
  }
  // A close that comes after the call was given up closes nothing.
  EXPECT_TRUE(
      parse(open("tools") + opened + open("response") + close("call")).answer.tool_calls.empty());
  EXPECT_TRUE(parse(open("tools") + opened + call("", "")).answer.tool_calls.empty());
  const Parsed second = parse(open("tools") + opened + call(" tool=\"g\"", ""));
  ASSERT_EQ(second.answer.tool_calls.size(), 1u);
  EXPECT_EQ(second.answer.tool_calls[0].name, "g");
  EXPECT_EQ(second.end, AnswerEnd::kToolCalls);
}

TEST(K3OutputParser, truncation_is_reported_unless_a_call_is_complete) {
  const std::string opened = open("tools") + open("call tool=\"f\"");
  const auto end_of = [](const std::string& text) {
    return parse(bytes(), bytes().encode_markup(text), options(OutputStart::kResponse),
                 AnswerEnd::kLength)
        .end;
  };
  EXPECT_EQ(end_of("text"), AnswerEnd::kLength);
  EXPECT_EQ(end_of(opened), AnswerEnd::kLength);
  EXPECT_EQ(end_of(opened + close("call") + open("call tool=\"g\"")), AnswerEnd::kToolCalls);
}

TEST(K3OutputParser, calls_without_a_name_or_without_declared_tools_are_dropped) {
  EXPECT_TRUE(parse(tools(call("", argument(" key=\"k\"", "v")))).events.empty());
  EXPECT_TRUE(parse(tools(call(" tool=\"\"", ""))).events.empty());
  const Parsed undeclared =
      parse(bytes(),
            bytes().encode_markup("x" + close("response") + tools(call(" tool=\"f\"", "")) + "y"),
            options(OutputStart::kResponse, {}));
  EXPECT_EQ(undeclared.answer.content, "x");
  EXPECT_TRUE(undeclared.answer.tool_calls.empty());
  EXPECT_EQ(undeclared.end, AnswerEnd::kStop);
}

TEST(K3OutputParser, calls_outside_a_tools_channel_are_calls) {
  EXPECT_EQ(parse("x" + call(" tool=\"f\"", "")).answer.tool_calls.size(), 1u);
}

TEST(K3OutputParser, skipped_thinking_is_the_answer_on_positive_evidence_only) {
  OutputParserOptions with = options(OutputStart::kThinking);
  const auto answer = [&](const std::string& text) {
    return parse(bytes(), bytes().encode_markup(text), with).answer;
  };
  EXPECT_EQ(answer("4" + close("response")).reasoning, "4");
  with.unclosed_thinking = OutputParserOptions::UnclosedThinking::kContent;
  EXPECT_EQ(answer("4" + close("response")).content, "4");
  EXPECT_EQ(answer("4" + close("message")).content, "4");
  EXPECT_EQ(answer("4" + close("message")).reasoning, "");
  EXPECT_EQ(answer("4<|end_of_msg|>").reasoning, "4");
  EXPECT_EQ(answer("4").reasoning, "4");
  EXPECT_EQ(answer(open("think") + "4" + close("response")).reasoning, "4");
}

TEST(K3OutputParser, unclosed_calls_take_linear_time) {
  std::string text = open("tools");
  for (int i = 0; i < 600; ++i)
    text += open("call tool=\"f\"") + open("argument key=\"k\"") + std::string(200, 'v');
  const Parsed parsed = parse(text);
  EXPECT_TRUE(parsed.answer.tool_calls.empty());
}

// Random outputs: well-formed parts, broken parts, text.
rc::Gen<std::string> random_output() {
  const std::vector<std::string> parts = {"<|open|>",
                                          "<|close|>",
                                          "<|sep|>",
                                          "think",
                                          "response",
                                          "message",
                                          "tools",
                                          "call",
                                          " ",
                                          "🫠é",
                                          open("think"),
                                          close("think"),
                                          open("response"),
                                          close("response"),
                                          open("tools"),
                                          close("tools"),
                                          open("call tool=\"f\""),
                                          close("call"),
                                          open("argument key=\"k\" type=\"string\""),
                                          open("argument key=\"n\" type=\"number\""),
                                          close("argument"),
                                          "5",
                                          "text \"and\" more\n",
                                          open("json type=\"object\""),
                                          close("json"),
                                          "{\"a\": 1}"};
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(parts)),
                      [](const std::vector<std::string>& chosen) {
                        std::string text;
                        for (const std::string& part : chosen) text += part;
                        return text;
                      });
}

TEST(K3OutputParser, the_result_does_not_depend_on_the_cut_into_tokens) {
  EXPECT_TRUE(rc::check([] {
    const std::string text = *random_output();
    const OutputParserOptions with =
        options(*rc::gen::element(OutputStart::kThinking, OutputStart::kResponse));
    const Parsed fine = parse(bytes(), bytes().encode_markup(text), with);
    const Parsed coarse = parse(demo_tokenizer(), demo_tokenizer().encode_markup(text), with);
    RC_ASSERT(fine.answer.reasoning == coarse.answer.reasoning);
    RC_ASSERT(fine.answer.content == coarse.answer.content);
    RC_ASSERT(fine.answer.tool_calls.size() == coarse.answer.tool_calls.size());
    for (std::size_t i = 0; i < fine.answer.tool_calls.size(); ++i) {
      RC_ASSERT(fine.answer.tool_calls[i].arguments == coarse.answer.tool_calls[i].arguments);
      RC_ASSERT(fine.answer.tool_calls[i].id == coarse.answer.tool_calls[i].id);
    }
    RC_ASSERT(fine.end == coarse.end);
  }));
}

TEST(K3OutputParser, events_are_well_formed_whatever_the_model_does) {
  EXPECT_TRUE(rc::check([] {
    const std::string text = *random_output();
    const Parsed parsed = parse(text);
    int open_call = -1, last_call = -1;
    for (const OutputEvent& event : parsed.events) {
      RC_ASSERT(is_valid_utf8(event.text));
      RC_ASSERT(event.text.find("<|") == std::string::npos);
      if (event.kind == Kind::kToolCallBegin) {
        RC_ASSERT(event.call == last_call + 1);
        last_call = open_call = event.call;
      } else if (event.kind == Kind::kToolCallArguments || event.kind == Kind::kToolCallEnd) {
        RC_ASSERT(event.call == open_call);
        if (event.kind == Kind::kToolCallEnd) open_call = -1;
      }
    }
    RC_ASSERT((parsed.end == AnswerEnd::kToolCalls) == !parsed.answer.tool_calls.empty());
  }));
}

}  // namespace
}  // namespace tandem
