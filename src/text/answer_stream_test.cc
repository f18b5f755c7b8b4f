#include "text/answer_stream.h"

#include <gtest/gtest.h>

#include <string>

#include "text/test_support.h"

namespace tandem {
namespace {

using Kind = OutputEvent::Kind;

struct Read {
  Answer answer;
  std::vector<OutputEvent> events;
  AnswerEnd end = AnswerEnd::kStop;
  bool stopped = false;
};

Read read(const std::string& text, const std::vector<std::string>& stops,
          AnswerEnd end = AnswerEnd::kLength) {
  static const auto tokenizer = byte_k3_tokenizer();
  OutputParserOptions options;
  options.start = OutputStart::kThinking;
  options.tool_names = {"f"};
  AnswerStream stream(make_output_parser(ChatFamily::kK3, *tokenizer, options), stops);
  Read result;
  const auto take = [&](const std::vector<OutputEvent>& events) {
    for (const OutputEvent& event : events) {
      result.answer.add(event);
      result.events.push_back(event);
    }
  };
  for (const TokenId id : tokenizer->encode_markup(text)) take(stream.feed(id));
  result.stopped = stream.stopped();
  const OutputParser::Finish finish = stream.finish(end);
  take(finish.events);
  result.end = finish.end;
  return result;
}

const std::string kToResponse = "<|close|>think<|sep|><|open|>response<|sep|>";

TEST(AnswerStream, without_stop_strings_it_is_the_parser) {
  const Read result = read("a" + kToResponse + "b", {});
  EXPECT_EQ(result.answer.reasoning, "a");
  EXPECT_EQ(result.answer.content, "b");
  EXPECT_EQ(result.end, AnswerEnd::kLength);
}

TEST(AnswerStream, cuts_the_content_before_a_stop_string) {
  const Read result = read("a" + kToResponse + "one STOP two", {"STOP"});
  EXPECT_EQ(result.answer.content, "one ");
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.end, AnswerEnd::kStop);
}

TEST(AnswerStream, stops_in_the_thinking_too) {
  const Read result = read("hm STOP" + kToResponse + "x", {"STOP"});
  EXPECT_EQ(result.answer.reasoning, "hm ");
  EXPECT_EQ(result.answer.content, "");
}

TEST(AnswerStream, a_stop_string_does_not_reach_across_channels) {
  const Read result = read("ab" + kToResponse + "cd", {"bc"});
  EXPECT_FALSE(result.stopped);
  EXPECT_EQ(result.answer.reasoning, "ab");
  EXPECT_EQ(result.answer.content, "cd");
}

TEST(AnswerStream, held_back_text_keeps_its_place_before_a_call) {
  const Read result =
      read("x" + kToResponse +
               "aS<|close|>response<|sep|><|open|>call tool=\"f\"<|sep|><|close|>call<|sep|>",
           {"STOP"});
  EXPECT_EQ(result.answer.content, "aS");
  ASSERT_GE(result.events.size(), 3u);
  EXPECT_EQ(result.events[result.events.size() - 4].text, "S");
  EXPECT_EQ(result.events[result.events.size() - 3].kind, Kind::kToolCallBegin);
  EXPECT_EQ(result.end, AnswerEnd::kToolCalls);
}

TEST(AnswerStream, held_back_text_comes_out_at_the_end) {
  EXPECT_EQ(read("x" + kToResponse + "aSTO", {"STOP"}).answer.content, "aSTO");
}

TEST(AnswerStream, arguments_of_calls_do_not_stop) {
  const Read result = read(
      kToResponse +
          "<|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\"<|sep|>STOP<|close|>argument"
          "<|sep|><|close|>call<|sep|>",
      {"STOP"});
  EXPECT_FALSE(result.stopped);
  ASSERT_EQ(result.answer.tool_calls.size(), 1u);
  EXPECT_EQ(result.answer.tool_calls[0].arguments, "{\"k\": \"STOP\"}");
}

TEST(AnswerStream, output_without_structure_is_content_and_hides_what_it_is_told_to) {
  const auto tokenizer = byte_k3_tokenizer();
  const auto shown = [&](SpecialText special, AnswerEnding ending) {
    AnswerStream stream(make_plain_output_parser(*tokenizer, special), {"x"}, ending);
    Answer answer;
    for (const TokenId id : tokenizer->encode_markup("a[EOS]bxd")) {
      for (const OutputEvent& event : stream.feed(id)) answer.add(event);
    }
    for (const OutputEvent& event : stream.finish(AnswerEnd::kStop).events) answer.add(event);
    return answer.content;
  };
  EXPECT_EQ(shown(SpecialText::kSkip, {}), "ab");
  EXPECT_EQ(shown(SpecialText::kKeep, {}), "a[EOS]b");
  EXPECT_EQ(shown(SpecialText::kSkip, {.stop_string = StopText::kKeep}), "abx");
  EXPECT_EQ(shown(SpecialText::kSkip, {.hidden_ids = tokenizer->encode_plain("b")}), "a");
}

}  // namespace
}  // namespace tandem
