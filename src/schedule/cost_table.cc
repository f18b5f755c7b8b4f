#include "schedule/cost_table.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tandem {
namespace {

constexpr double kRate = 0.1;           // share of a deviation that one measurement corrects
constexpr double kOwnRate = 0.5;        // of an octave itself, beside that of all octaves
constexpr double kDeviationRate = 0.1;  // how fast the usual deviation follows
constexpr double kLargestDeviations = 3;
constexpr double kSmallestDeviation = 0.01;
constexpr double kLargestChange = 1.5;  // of an increment by one measurement

// How far octave `part` is filled by `count`, in its own units: 0 holds the first one, octave i the
// counts above 2^(i-1) up to 2^i.
double filled(std::size_t part, std::size_t parts, std::int64_t count) {
  const std::int64_t below = part == 0 ? 0 : std::int64_t{1} << (part - 1);
  const std::int64_t end = std::int64_t{1} << part;
  const std::int64_t reached = part + 1 == parts ? count : std::min(count, end);
  return static_cast<double>(std::max<std::int64_t>(0, reached - below));
}

}  // namespace

Result<CostTable> CostTable::create(const CostSeed& seed) {
  for (const double value : {seed.fixed_ms, seed.token_ms, seed.attention_ms, seed.row_ms}) {
    if (!std::isfinite(value) || value <= 0) {
      return invalid("step costs must be finite and above 0, not {}", value);
    }
  }
  return CostTable(seed);
}

CostTable::CostTable(const CostSeed& seed) {
  increments_ms_[kFixed] = seed.fixed_ms;
  increments_ms_[kAttention] = seed.attention_ms;
  std::fill_n(increments_ms_.begin() + kTokens, kTokenParts, seed.token_ms);
  std::fill_n(increments_ms_.begin() + kRows, kRowParts, seed.row_ms);
}

CostTable::Parts CostTable::amounts(const StepWork& work) {
  const auto tokens = static_cast<double>(work.prefill_tokens);
  const auto context = static_cast<double>(work.prefill_context_tokens);
  Parts needed = {};
  needed[kFixed] = work.prefill_tokens > 0 || work.decode_rows > 0 ? 1 : 0;
  needed[kAttention] = tokens * (context + tokens / 2);
  for (std::size_t i = 0; i < kTokenParts; ++i) {
    needed[kTokens + i] = filled(i, kTokenParts, work.prefill_tokens);
  }
  for (std::size_t i = 0; i < kRowParts; ++i) {
    needed[kRows + i] = filled(i, kRowParts, work.decode_rows);
  }
  return needed;
}

double CostTable::step_ms(const StepWork& work) const {
  const Parts needed = amounts(work);
  double sum_ms = 0;
  for (std::size_t i = 0; i < kParts; ++i) sum_ms += needed[i] * increments_ms_[i];
  return sum_ms;
}

// A normalised gradient step on the logarithms of the increments, where an increment is the product
// of its group's factor and its own.
void CostTable::correct(const StepWork& work, double measured_ms) {
  CHECK(std::isfinite(measured_ms) && measured_ms > 0, "a step of {} ms", measured_ms);
  const double predicted_ms = step_ms(work);
  if (predicted_ms <= 0) return;
  const double bound = kLargestDeviations * usual_deviation_;
  const double deviation = std::clamp(std::log(measured_ms / predicted_ms), -bound, bound);
  usual_deviation_ += kDeviationRate * (std::abs(deviation) - usual_deviation_);
  usual_deviation_ = std::max(usual_deviation_, kSmallestDeviation);

  Parts shares = amounts(work);
  for (std::size_t i = 0; i < kParts; ++i) shares[i] *= increments_ms_[i] / predicted_ms;
  std::array<double, kGroups.size() - 1> group_shares = {};
  double norm = 0;
  for (std::size_t group = 0; group < group_shares.size(); ++group) {
    for (std::size_t i = kGroups[group]; i < kGroups[group + 1]; ++i) {
      group_shares[group] += shares[i];
      norm += kOwnRate * shares[i] * shares[i];
    }
    norm += group_shares[group] * group_shares[group];
  }
  const double wanted = std::expm1(kRate * deviation) / norm;
  for (std::size_t group = 0; group < group_shares.size(); ++group) {
    for (std::size_t i = kGroups[group]; i < kGroups[group + 1]; ++i) {
      const double factor = 1 + wanted * (group_shares[group] + kOwnRate * shares[i]);
      increments_ms_[i] *= std::clamp(factor, 1 / kLargestChange, kLargestChange);
    }
  }
}

// Of a chunk without attention, whose sum over chunks does not depend on the cuts.
double CostTable::chunk_ms(std::int64_t tokens) const {
  Parts needed = amounts({.prefill_tokens = tokens});
  needed[kAttention] = 0;
  double sum_ms = 0;
  for (std::size_t i = 0; i < kParts; ++i) sum_ms += needed[i] * increments_ms_[i];
  return sum_ms;
}

double CostTable::prefill_ms(std::int64_t tokens, std::int64_t chunk_tokens) const {
  CHECK(tokens >= 0 && chunk_tokens > 0, "{} tokens in chunks of {}", tokens, chunk_tokens);
  const auto chunks = static_cast<double>(tokens / chunk_tokens);
  const auto n = static_cast<double>(tokens);
  return chunks * chunk_ms(chunk_tokens) + chunk_ms(tokens % chunk_tokens) +
         increments_ms_[kAttention] * (n * n / 2);
}

PrefillCost CostTable::prefill_cost(std::int64_t chunk_tokens) const {
  return [table = *this, chunk_tokens](std::int64_t tokens) {
    return table.prefill_ms(tokens, chunk_tokens);
  };
}

std::int64_t CostTable::largest_prefill(const Budget& budget, std::int64_t context_tokens,
                                        std::int64_t decode_rows) const {
  const std::int64_t grid = budget.grid_tokens;
  CHECK(grid > 0 && budget.min_tokens >= 0 && budget.min_tokens % grid == 0 &&
            budget.min_tokens <= budget.max_tokens,
        "from {} to {} tokens by {}", budget.min_tokens, budget.max_tokens, grid);
  const auto fits = [&](std::int64_t steps) {
    return step_ms({.prefill_tokens = steps * grid,
                    .prefill_context_tokens = context_tokens,
                    .decode_rows = decode_rows}) <= budget.step_ms;
  };
  std::int64_t low = budget.min_tokens / grid;  // granted
  std::int64_t high = budget.max_tokens / grid;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low * grid;
}

}  // namespace tandem
