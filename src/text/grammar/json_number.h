// JSON numbers within bounds, as expressions over bytes.
#pragma once

#include <optional>

#include "base/status.h"
#include "text/grammar/decimal.h"
#include "text/grammar/expression.h"

namespace tandem::grammar {

// Digits before the point of any number, so that a run of digits ends.
inline constexpr std::size_t kMaxWholeDigits = 18;
// Digits after the point of a number that has a bound, and of one that has none.
inline constexpr int kBoundedFraction = 6;
inline constexpr std::int64_t kFreeFraction = 16;
// The largest divisor that "multipleOf" may name.
inline constexpr std::int64_t kMaxDivisor = 4096;

struct NumberBound {
  Decimal value;
  bool exclusive = false;
};

struct NumberBounds {
  std::optional<NumberBound> minimum, maximum;
  bool integers_only = false;
  std::int64_t divisor = 1;             // 1 .. kMaxDivisor; above 1 only with integers_only
  int max_fraction = kBoundedFraction;  // digits after the point
  bool any_fraction() const { return max_fraction == kBoundedFraction; }
};

// Every number within the bounds that has at most kMaxWholeDigits digits before the point. Without
// bounds also exponents of at most two digits. Integers are written without point and exponent.
// Fails only when the budget is spent.
Result<ExprId> number_expression(RuleBook* book, const NumberBounds& bounds, Budget* budget);

}  // namespace tandem::grammar
