// How long a step takes, as far as the steps so far tell.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "memory/eviction_order.h"

namespace tandem {

// What a step computes.
struct StepWork {
  std::int64_t prefill_tokens = 0;
  // Tokens in place before the chunk; of several chunks the mean, weighted by their tokens.
  std::int64_t prefill_context_tokens = 0;
  std::int64_t decode_rows = 0;  // one token each
};

// Where a CostTable starts:
//   fixed_ms + token_ms * tokens + attention_ms * tokens * (context + tokens / 2) + row_ms * rows
// The half is the chunk's attention to itself; with it, cutting a prompt into more chunks costs
// only more of `fixed_ms`. All are above 0: a term that starts at nothing could not be corrected.
struct CostSeed {
  double fixed_ms = 0;
  double token_ms = 0;
  double attention_ms = 0;  // for a pair of tokens
  double row_ms = 0;
};

// A table of step times that starts as a closed form and follows what is measured.
//
// The time is a sum of increments, each above 0: a fixed part, one for each octave of prefill
// tokens and of decode rows that is filled, and one for attention. So it never falls when an
// argument grows, whatever is measured. A measurement scales the parts in proportion to their share
// in that step, within an octave more than in the rest of its kind: a machine half as fast as the
// seed is learnt for all sizes at once, a staircase at one size stays there. Measurements far from
// what is usual are cut to a multiple of the usual deviation, so that a stall teaches little.
//
// A value: a copy is a snapshot. The same seed and measurements give the same bits. Not
// thread-safe.
class CostTable {
 public:
  // Fails if a number of the seed is not finite and above 0.
  static Result<CostTable> create(const CostSeed& seed);

  // Milliseconds of a step; 0 of one that does nothing.
  double step_ms(const StepWork& work) const;

  // A step took `measured_ms`, which must be above 0. One that does nothing teaches nothing.
  void correct(const StepWork& work, double measured_ms);

  // Milliseconds to compute the first `tokens` of a prompt from nothing, alone, in chunks of
  // `chunk_tokens`. Never falls with `tokens`; 0 for 0.
  double prefill_ms(std::int64_t tokens, std::int64_t chunk_tokens) const;

  // prefill_ms as it is now: later corrections do not reach it, so that what is ordered by it stays
  // in order.
  PrefillCost prefill_cost(std::int64_t chunk_tokens) const;

  struct Budget {
    double step_ms = 0;
    std::int64_t grid_tokens = 1;  // the answer is a multiple of it
    std::int64_t min_tokens = 0;   // given even if it breaks the budget; on the grid
    std::int64_t max_tokens = 0;   // not below min_tokens
  };
  // The most prefill tokens after `context_tokens` that fit in a step beside `decode_rows`.
  std::int64_t largest_prefill(const Budget& budget, std::int64_t context_tokens,
                               std::int64_t decode_rows) const;

 private:
  // Octaves up to 2^20 tokens and 2^16 rows; what lies beyond continues the last one.
  static constexpr std::size_t kTokenParts = 21;
  static constexpr std::size_t kRowParts = 17;
  static constexpr std::size_t kFixed = 0;
  static constexpr std::size_t kAttention = 1;
  static constexpr std::size_t kTokens = 2;
  static constexpr std::size_t kRows = kTokens + kTokenParts;
  static constexpr std::size_t kParts = kRows + kRowParts;
  // The fixed part, attention, tokens, rows: each is also scaled as a whole.
  static constexpr std::array<std::size_t, 5> kGroups = {kFixed, kAttention, kTokens, kRows,
                                                         kParts};
  using Parts = std::array<double, kParts>;

  explicit CostTable(const CostSeed& seed);
  // How much of each increment the step needs.
  static Parts amounts(const StepWork& work);
  double chunk_ms(std::int64_t tokens) const;

  Parts increments_ms_;
  double usual_deviation_ = 0.5;  // of ln(measured / predicted)
};

}  // namespace tandem
