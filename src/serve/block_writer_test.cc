#include "serve/block_writer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem {
namespace {

using Kind = OutputEvent::Kind;

class Recorder final : public BlockWriter {
 public:
  Recorder() : BlockWriter(7) {}
  void begin() override {}
  void complete() override {}
  void fail(const Status&) override {}

  std::vector<std::string> calls;

 private:
  void on_block_begin(std::size_t index, const AnswerBlock& block) override {
    calls.push_back(fmt::format("{} begin {}", index, name(block)));
  }
  void on_block_text(std::size_t index, const AnswerBlock&, std::string_view piece) override {
    calls.push_back(fmt::format("{} {}", index, piece));
  }
  void on_block_end(std::size_t index, const AnswerBlock& block) override {
    calls.push_back(fmt::format("{} {} \"{}\"", index, block.whole ? "whole" : "void", block.text));
  }
  static std::string name(const AnswerBlock& block) {
    if (block.kind == AnswerBlock::Kind::kCall) return block.name + " " + block.id;
    return block.kind == AnswerBlock::Kind::kText ? "text" : "thinking";
  }
};

OutputEvent call_begin(int call) {
  return {
      .kind = Kind::kToolCallBegin, .call = call, .id = "f:" + std::to_string(call), .name = "f"};
}

std::vector<std::string> calls_of(const std::vector<OutputEvent>& events, FinishReason reason) {
  Recorder recorder;
  for (const OutputEvent& event : events) recorder.on_events(0, {event}, {});
  recorder.on_end(0, {.result = {.reason = reason, .usage = {}}});
  return recorder.calls;
}

TEST(BlockWriter, a_block_ends_where_the_next_begins) {
  EXPECT_EQ(calls_of({{Kind::kReasoning, "h"},
                      {Kind::kReasoning, ""},
                      {Kind::kContent, "a"},
                      {Kind::kContent, "b"},
                      call_begin(0),
                      {.kind = Kind::kToolCallArguments, .text = "{}", .call = 0},
                      {.kind = Kind::kToolCallEnd, .call = 0},
                      {Kind::kContent, "c"}},
                     FinishReason::kStop),
            (std::vector<std::string>{"0 begin thinking", "0 h", "0 whole \"h\"", "1 begin text",
                                      "1 a", "1 b", "1 whole \"ab\"", "2 begin f f:0", "2 {}",
                                      "2 whole \"{}\"", "3 begin text", "3 c", "3 whole \"c\""}));
}

TEST(BlockWriter, text_that_was_cut_off_is_not_whole) {
  for (const FinishReason reason : {FinishReason::kLength, FinishReason::kCancelled}) {
    EXPECT_EQ(calls_of({{Kind::kContent, "a"}}, reason).back(), "0 void \"a\"");
  }
}

TEST(BlockWriter, a_call_without_its_end_is_void_however_it_is_left) {
  EXPECT_EQ(calls_of({call_begin(0)}, FinishReason::kStop).back(), "0 void \"\"");
  EXPECT_EQ(
      calls_of({call_begin(0), call_begin(1), {.kind = Kind::kToolCallEnd, .call = 1}},
               FinishReason::kStop),
      (std::vector<std::string>{"0 begin f f:0", "0 void \"\"", "1 begin f f:1", "1 whole \"\""}));
}

TEST(BlockWriter, thinking_that_was_the_answer_is_repeated_as_text) {
  EXPECT_EQ(
      calls_of({{Kind::kReasoning, "h"}, {Kind::kReasoningWasContent, "h"}}, FinishReason::kStop),
      (std::vector<std::string>{"0 begin thinking", "0 h", "0 whole \"h\"", "1 begin text", "1 h",
                                "1 whole \"h\""}));
}

}  // namespace
}  // namespace tandem
