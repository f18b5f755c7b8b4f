// Which requests run, which ran lately, and how prompts met the prefix cache: what the console's
// live page shows beside the engine's own counters.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"

namespace tandem {

constexpr std::size_t kCacheMisses = 5;

// One request (each choice is one). Times in milliseconds since the log was made.
struct RequestRecord {
  std::uint64_t number = 0;  // 1, 2, ... by submission
  std::int64_t prompt_tokens = 0;
  std::int64_t answer_tokens = 0;  // so far
  double submitted_ms = 0;
  std::optional<double> first_token_ms = {};
  std::optional<GenerateResult> result = {};  // once it has ended
};

// Of requests that ended, since the log was made.
struct PromptTotals {
  std::int64_t prompts = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::array<std::int64_t, kCacheMisses> misses{};         // prompts, by CacheMiss
  std::array<std::int64_t, kCacheMisses> missed_tokens{};  // of them, not cached
};

// Thread-safe. `clock` outlives the log; the log outlives every sink it watches.
class RequestLog {
 public:
  explicit RequestLog(const Clock& clock) : clock_(clock), start_(clock.now()) {}

  // A sink for the engine that passes all on to `sink` and records it. One that dies before
  // on_finish (the engine refused the request) leaves no trace.
  std::unique_ptr<TokenSink> watch(std::int64_t prompt_tokens, std::unique_ptr<TokenSink> sink);

  double now_ms() const { return milliseconds(start_, clock_.now()); }
  PromptTotals totals() const;
  // All that have not ended, and the last kKept that have; by number.
  std::vector<RequestRecord> recent() const;

  static constexpr std::size_t kKept = 64;

 private:
  class Watch;

  std::uint64_t begin(std::int64_t prompt_tokens);
  void token(std::uint64_t number);
  void end(std::uint64_t number, const GenerateResult& result);
  void forget(std::uint64_t number);

  const Clock& clock_;
  const TimePoint start_;

  mutable std::mutex mutex_;  // guards what follows
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, RequestRecord> open_;
  std::deque<RequestRecord> ended_;
  PromptTotals totals_;
};

}  // namespace tandem
