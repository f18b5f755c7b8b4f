// Joins the step loop to text: sampled tokens become reasoning, content and tool calls.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "text/answer_stream.h"

namespace tandem {

// How an answer ended, for whoever shows it. `end` is meaningful unless the request was cancelled
// or failed (result.reason).
struct AnswerResult {
  AnswerEnd end = AnswerEnd::kStop;
  GenerateResult result;
  // What ended it with FinishReason::kStop: a stop string, else a stop id.
  std::string stop_string = {};
  std::optional<TokenId> stop_id = {};
};

// Both callbacks run on the engine's loop thread and must return quickly. `on_events` is called for
// every token, also with no events (its text may be held back), and once more with `token` =
// nullptr for what the end releases; then `on_end` exactly once.
class AnswerSink final : public TokenSink {
 public:
  using OnEvents = std::function<void(std::vector<OutputEvent> events, const SampledToken* token)>;
  using OnEnd = std::function<void(const AnswerResult& answer)>;

  AnswerSink(AnswerStream stream, OnEvents on_events, OnEnd on_end)
      : stream_(std::move(stream)), on_events_(std::move(on_events)), on_end_(std::move(on_end)) {}

  Verdict on_token(const SampledToken& token) override {
    last_id_ = token.id;
    on_events_(stream_.feed(token.id), &token);
    return stream_.stopped() ? Verdict::kStop : Verdict::kContinue;
  }

  void on_finish(const GenerateResult& result) override {
    const AnswerEnd end =
        result.reason == FinishReason::kLength ? AnswerEnd::kLength : AnswerEnd::kStop;
    OutputParser::Finish finish = stream_.finish(end);
    on_events_(std::move(finish.events), nullptr);
    AnswerResult answer{.end = finish.end, .result = result};
    if (result.reason == FinishReason::kStop) {
      answer.stop_string = stream_.stop_string();
      if (answer.stop_string.empty()) answer.stop_id = last_id_;
    }
    on_end_(answer);
  }

 private:
  AnswerStream stream_;
  OnEvents on_events_;
  OnEnd on_end_;
  TokenId last_id_ = -1;
};

}  // namespace tandem
