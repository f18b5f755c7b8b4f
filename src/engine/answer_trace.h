// What a greedy answer was chosen from, in a form that can be kept for many and compared exactly.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engine/step_observer.h"

namespace tandem {

struct AnswerTrace {
  struct Choice {
    std::uint64_t logits_hash = 0;
    double gap = 0;  // best logit less the second, in standard deviations of all
  };
  std::unordered_map<std::int64_t, Choice> choices;  // by position of the token chosen
  // Hash of the experts, by position * layers + layer.
  std::unordered_map<std::int64_t, std::uint64_t> experts;
};

// Collects traces by request. Thread-safe.
class TraceRecorder final : public StepObserver {
 public:
  explicit TraceRecorder(std::int64_t layers) : layers_(layers) {}

  void on_experts(RequestId request, std::int64_t first_position, std::int64_t layer,
                  std::int64_t tokens, std::span<const std::int32_t> ids) override;
  void on_logits(RequestId request, std::int64_t position, std::span<const float> logits) override;

  AnswerTrace take(RequestId request);

 private:
  std::int64_t layers_;
  std::mutex mutex_;
  std::unordered_map<RequestId, AnswerTrace> traces_;
};

// The first layer that chose other experts for a token before `position` of those that both traces
// saw; -1 if there is none.
std::int64_t first_other_experts(const AnswerTrace& a, const AnswerTrace& b, std::int64_t layers,
                                 std::int64_t position);

}  // namespace tandem
