#include <gtest/gtest.h>

#include <string>

#include "text/output_parser.h"
#include "text/test_support.h"

namespace tandem {
namespace {

const Tokenizer& bytes() {
  static const auto tokenizer = byte_kimi_linear_tokenizer();
  return *tokenizer;
}

struct Parsed {
  Answer answer;
  AnswerEnd end = AnswerEnd::kStop;
  std::vector<OutputEvent> events;
};

Parsed parse(const std::vector<TokenId>& ids, std::vector<std::string> tools = {"f", "g"},
             AnswerEnd end = AnswerEnd::kStop) {
  OutputParserOptions options;
  options.tool_names = std::move(tools);
  const auto parser = make_output_parser(ChatFamily::kKimiLinear, bytes(), options);
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

Parsed parse(const std::string& text) { return parse(bytes().encode_markup(text)); }

std::string call(const std::string& id, const std::string& arguments) {
  return "<|tool_call_begin|>" + id + "<|tool_call_argument_begin|>" + arguments +
         "<|tool_call_end|>";
}
std::string section(const std::string& calls) {
  return "<|tool_calls_section_begin|>" + calls + "<|tool_calls_section_end|>";
}

TEST(KimiLinearOutputParser, plain_text_is_content_up_to_the_end_of_the_turn) {
  const Parsed parsed = parse("Hi 🫠<|im_end|>more");
  EXPECT_EQ(parsed.answer.content, "Hi 🫠");
  EXPECT_EQ(parsed.answer.reasoning, "");
  EXPECT_EQ(parsed.end, AnswerEnd::kStop);
}

TEST(KimiLinearOutputParser, reads_calls_and_the_text_around_their_section) {
  const Parsed parsed = parse("Let me see." +
                              section(call("functions.f:0", "{\"a\": 1}") + " between " +
                                      call(" functions.my.tool-x:1 ", "\n {\"b\":\n\"}\"} \n")) +
                              "Done.");
  EXPECT_EQ(parsed.answer.content, "Let me see.Done.");
  ASSERT_EQ(parsed.answer.tool_calls.size(), 2u);
  EXPECT_EQ(parsed.answer.tool_calls[0].id, "functions.f:0");
  EXPECT_EQ(parsed.answer.tool_calls[0].name, "f");
  EXPECT_EQ(parsed.answer.tool_calls[0].arguments, "{\"a\": 1}");
  EXPECT_EQ(parsed.answer.tool_calls[1].id, "functions.my.tool-x:1");
  EXPECT_EQ(parsed.answer.tool_calls[1].name, "my.tool-x");
  EXPECT_EQ(parsed.answer.tool_calls[1].arguments, "{\"b\":\n\"}\"}");
  EXPECT_EQ(parsed.end, AnswerEnd::kToolCalls);
}

TEST(KimiLinearOutputParser, only_the_first_prefix_and_the_last_colon_count) {
  const auto name_of = [](const std::string& id) {
    const Parsed parsed = parse(call(id, "{}"));
    return parsed.answer.tool_calls.empty() ? "no call" : parsed.answer.tool_calls[0].name;
  };
  EXPECT_EQ(name_of("f:0"), "f");
  EXPECT_EQ(name_of("functions.functions.f:0"), "functions.f");
  EXPECT_EQ(name_of("functions.a:b:12"), "a:b");
  EXPECT_EQ(name_of("call_8a7b"), "no call");
  EXPECT_EQ(name_of("functions.:0"), "no call");
  EXPECT_EQ(name_of("functions.f:x"), "no call");
}

TEST(KimiLinearOutputParser, an_id_without_a_name_means_the_only_tool) {
  const Parsed parsed = parse(bytes().encode_markup(call("call_8a7b", "{}")), {"only"});
  ASSERT_EQ(parsed.answer.tool_calls.size(), 1u);
  EXPECT_EQ(parsed.answer.tool_calls[0].name, "only");
  EXPECT_EQ(parsed.answer.tool_calls[0].id, "call_8a7b");
}

TEST(KimiLinearOutputParser, calls_need_no_section) {
  const Parsed parsed = parse("a" + call("f:0", "{}") + "b");
  EXPECT_EQ(parsed.answer.tool_calls.size(), 1u);
  EXPECT_EQ(parsed.answer.content, "ab");
}

TEST(KimiLinearOutputParser, markers_in_ordinary_characters_and_singular_spellings_are_text) {
  const std::string typed = section(call("f:0", "{}"));
  EXPECT_EQ(parse(bytes().encode_plain(typed)).answer.content, typed);
  const std::string singular = "<|tool_call_section_begin|>";
  EXPECT_EQ(parse(singular).answer.content, singular);
}

TEST(KimiLinearOutputParser, arguments_are_handed_on_as_they_stand) {
  const auto arguments_of = [](const std::string& arguments) {
    return parse(call("f:0", arguments)).answer.tool_calls.at(0).arguments;
  };
  EXPECT_EQ(arguments_of("{\"a\": }"), "{\"a\": }");
  EXPECT_EQ(arguments_of("{\"a\":  1}"), "{\"a\":  1}");
  EXPECT_EQ(arguments_of("  "), "{}");
  EXPECT_EQ(arguments_of("{\"a\": \"🫠 <|tool_call_en"), "{\"a\": \"🫠 <|tool_call_en");
}

TEST(KimiLinearOutputParser, a_call_without_its_own_end_is_void) {
  const std::string opened = "<|tool_call_begin|>f:0<|tool_call_argument_begin|>{\"a\":";
  for (const std::string& text :
       {opened, section(opened), opened + "<|im_end|>", std::string("<|tool_call_begin|>f:0"),
        std::string("<|tool_call_begin|>f:0<|tool_call_end|>")}) {
    const Parsed parsed = parse(text);
    EXPECT_TRUE(parsed.answer.tool_calls.empty()) << text;
    EXPECT_EQ(parsed.answer.content, "") << text;
    EXPECT_EQ(parsed.end, AnswerEnd::kStop) << text;
  }
  const Parsed second = parse(opened + call("g:1", "{}"));
  ASSERT_EQ(second.answer.tool_calls.size(), 1u);
  EXPECT_EQ(second.answer.tool_calls[0].name, "g");
  EXPECT_EQ(parse(bytes().encode_markup(opened), {"f"}, AnswerEnd::kLength).end,
            AnswerEnd::kLength);
}

TEST(KimiLinearOutputParser, calls_without_declared_tools_are_dropped) {
  const Parsed parsed = parse(bytes().encode_markup("x" + section(call("f:0", "{}"))), {});
  EXPECT_EQ(parsed.answer.content, "x");
  EXPECT_TRUE(parsed.answer.tool_calls.empty());
  EXPECT_EQ(parsed.end, AnswerEnd::kStop);
}

TEST(KimiLinearOutputParser, thinking_ends_at_its_marker_or_at_a_section) {
  Parsed parsed = parse("<think>hm</think>yes");
  EXPECT_EQ(parsed.answer.reasoning, "hm");
  EXPECT_EQ(parsed.answer.content, "yes");
  parsed = parse("<think>hm" + section(call("f:0", "{}")));
  EXPECT_EQ(parsed.answer.reasoning, "hm");
  EXPECT_EQ(parsed.answer.tool_calls.size(), 1u);
}

TEST(KimiLinearOutputParser, unclosed_calls_take_linear_time) {
  std::string text;
  for (int i = 0; i < 600; ++i)
    text += "<|tool_call_begin|>f:0<|tool_call_argument_begin|>{" + std::string(200, ' ');
  EXPECT_TRUE(parse(text).answer.tool_calls.empty());
}

}  // namespace
}  // namespace tandem
