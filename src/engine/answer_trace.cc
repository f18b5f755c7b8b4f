#include "engine/answer_trace.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tandem {
namespace {

std::uint64_t hash(std::uint64_t seed, std::uint64_t value) {
  seed = (seed ^ value) * 0x9E37'79B9'7F4A'7C15;
  return seed ^ (seed >> 32);
}

}  // namespace

void TraceRecorder::on_experts(RequestId request, std::int64_t first_position, std::int64_t layer,
                               std::int64_t tokens, std::span<const std::int32_t> ids) {
  const std::size_t top_k = ids.size() / static_cast<std::size_t>(tokens);
  std::lock_guard lock(mutex_);
  AnswerTrace& trace = traces_[request];
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::uint64_t chosen = 0;
    for (const std::int32_t id : ids.subspan(static_cast<std::size_t>(t) * top_k, top_k)) {
      chosen = hash(chosen, static_cast<std::uint64_t>(id));
    }
    trace.experts[(first_position + t) * layers_ + layer] = chosen;
  }
}

void TraceRecorder::on_logits(RequestId request, std::int64_t position,
                              std::span<const float> logits) {
  AnswerTrace::Choice choice;
  double sum = 0, squares = 0;
  float best = -INFINITY, second = -INFINITY;
  for (const float logit : logits) {
    choice.logits_hash = hash(choice.logits_hash, std::bit_cast<std::uint32_t>(logit));
    sum += logit;
    squares += static_cast<double>(logit) * logit;
    second = std::max(second, std::min(best, logit));
    best = std::max(best, logit);
  }
  const auto count = static_cast<double>(logits.size());
  const double variance = squares / count - sum / count * (sum / count);
  choice.gap = variance > 0 ? (best - second) / std::sqrt(variance) : 0;
  std::lock_guard lock(mutex_);
  traces_[request].choices[position] = choice;
}

AnswerTrace TraceRecorder::take(RequestId request) {
  std::lock_guard lock(mutex_);
  const auto found = traces_.find(request);
  if (found == traces_.end()) return {};
  AnswerTrace trace = std::move(found->second);
  traces_.erase(found);
  return trace;
}

std::int64_t first_other_experts(const AnswerTrace& a, const AnswerTrace& b, std::int64_t layers,
                                 std::int64_t position) {
  std::int64_t first = -1;
  for (const auto& [key, chosen] : a.experts) {
    if (key / layers >= position) continue;
    const auto other = b.experts.find(key);
    if (other == b.experts.end() || other->second == chosen) continue;
    const std::int64_t layer = key % layers;
    if (first < 0 || layer < first) first = layer;
  }
  return first;
}

}  // namespace tandem
