// Exact numbers as they are written in answers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem::train {

// A number and how it was written: the rules of equality look at both.
struct WrittenNumber {
  enum class Form { kInteger, kFraction, kOther };  // 12 or 12.0 | 3/4 | 0.75, 1e3 or 7 3/4

  bool negative = false;
  std::string numerator;    // decimal digits without leading zeros, "0" for zero
  std::string denominator;  // likewise, never "0"; not reduced
  Form form = Form::kInteger;
};

// An optional sign, then digits, a decimal (".5" too), digits with an exponent of ten ("1.5e3"),
// a fraction of two whole numbers or a whole number and a fraction with a space between.
// Nothing if `text` is none of them, divides by zero or has more than kMaxDigits digits.
std::optional<WrittenNumber> parse_number(std::string_view text);

inline constexpr std::size_t kMaxDigits = 1000;

// Whether two numbers are equal, by exact arithmetic of any length.
bool equal_values(const WrittenNumber& a, const WrittenNumber& b);

}  // namespace tandem::train
