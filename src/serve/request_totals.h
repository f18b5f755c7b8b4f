// What requests of all clients came to since the server started; the engine's own counters
// (EngineStatus) know steps and memory.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "engine/engine.h"

namespace tandem {

constexpr std::size_t kFinishReasons = 4;

// A value, for whoever reports.
struct RequestCounts {
  std::array<std::int64_t, kFinishReasons> ended{};  // by FinishReason; each choice is one
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;   // of the prompts
  std::int64_t unknown_fields = 0;  // of requests' bodies
};

// Thread-safe. Each counter is exact; those of one request may be seen one by one.
class RequestTotals {
 public:
  void add(const GenerateResult& result) {
    ended_[static_cast<std::size_t>(result.reason)] += 1;
    prompt_tokens_ += result.usage.prompt_tokens;
    completion_tokens_ += result.usage.completion_tokens;
    cached_tokens_ += result.usage.cache.cached_tokens;
  }

  void add_unknown_fields(std::int64_t fields) { unknown_fields_ += fields; }

  RequestCounts counts() const {
    RequestCounts counts{.prompt_tokens = prompt_tokens_,
                         .completion_tokens = completion_tokens_,
                         .cached_tokens = cached_tokens_,
                         .unknown_fields = unknown_fields_};
    for (std::size_t i = 0; i < kFinishReasons; ++i) counts.ended[i] = ended_[i];
    return counts;
  }

 private:
  std::array<std::atomic<std::int64_t>, kFinishReasons> ended_{};
  std::atomic<std::int64_t> prompt_tokens_ = 0;
  std::atomic<std::int64_t> completion_tokens_ = 0;
  std::atomic<std::int64_t> cached_tokens_ = 0;
  std::atomic<std::int64_t> unknown_fields_ = 0;
};

}  // namespace tandem
