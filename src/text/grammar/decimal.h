// Exact arithmetic on decimal numbers, as much of it as bounds on numbers take.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::grammar {

// An integer of any size: `digits` without leading zeros, "0" for zero, which is never negative.
struct Integer {
  bool negative = false;
  std::string digits = "0";
  bool operator==(const Integer&) const = default;
};

int compare(const Integer& a, const Integer& b);  // < 0, 0, > 0
Integer negated(Integer value);
Integer plus_one(Integer value);
Integer minus_one(Integer value);
// 10 to the power of `digits`, less one: the largest number of so many digits.
Integer largest_of(std::size_t digits);

// A number as JSON spells it.
class Decimal {
 public:
  // `text` must be a JSON number with an exponent between -400 and 400.
  explicit Decimal(std::string_view text);

  // The value times 10^scale, rounded towards minus or plus infinity.
  Integer floor(int scale) const;
  Integer ceil(int scale) const;
  // Whether the value times 10^scale is an integer.
  bool is_integer(int scale) const;

 private:
  // Digits before and after the point, once it was moved by `scale`; false if some were lost.
  bool shifted(int scale, std::string* digits) const;

  bool negative_ = false;
  std::string digits_;  // significant
  int exponent_ = 0;    // of the last digit
};

}  // namespace tandem::grammar
