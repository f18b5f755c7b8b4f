#include "train/rl/rational.h"

#include <algorithm>
#include <vector>

namespace tandem::train {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes digits from the front of `text`.
std::string take_digits(std::string_view& text) {
  std::size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  std::string digits(text.substr(0, count));
  text.remove_prefix(count);
  return digits;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

std::string without_leading_zeros(const std::string& digits) {
  const std::size_t first = digits.find_first_not_of('0');
  return first == std::string::npos ? "0" : digits.substr(first);
}

// Schoolbook products and sums of decimal digits: at most kMaxDigits each.
std::string multiply(const std::string& a, const std::string& b) {
  std::vector<int> cells(a.size() + b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      int& cell = cells[i + j];
      cell += (a[a.size() - 1 - i] - '0') * (b[b.size() - 1 - j] - '0');
    }
  }
  int carry = 0;
  std::string digits(cells.size(), '0');
  for (std::size_t i = 0; i < cells.size(); ++i) {
    carry += cells[i];
    digits[cells.size() - 1 - i] = static_cast<char>('0' + carry % 10);
    carry /= 10;
  }
  return without_leading_zeros(digits);
}

std::string add(const std::string& a, const std::string& b) {
  std::string digits(std::max(a.size(), b.size()) + 1, '0');
  int carry = 0;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    carry += i < a.size() ? a[a.size() - 1 - i] - '0' : 0;
    carry += i < b.size() ? b[b.size() - 1 - i] - '0' : 0;
    digits[digits.size() - 1 - i] = static_cast<char>('0' + carry % 10);
    carry /= 10;
  }
  return without_leading_zeros(digits);
}

std::string power_of_ten(std::size_t exponent) { return "1" + std::string(exponent, '0'); }

// After "e": the number times ten to the power that follows.
bool take_exponent(std::string_view& text, WrittenNumber& number) {
  const bool down = take(text, '-');
  if (!down) take(text, '+');
  const std::string digits = take_digits(text);
  if (digits.empty() || digits.size() > 3) return false;
  std::string& scaled = down ? number.denominator : number.numerator;
  scaled = multiply(scaled, power_of_ten(std::stoul(digits)));
  return true;
}

// A decimal with what may follow it.
std::optional<WrittenNumber> decimal(const std::string& whole, std::string_view text) {
  WrittenNumber number;
  std::string fraction;
  if (take(text, '.')) fraction = take_digits(text);
  if (whole.empty() && fraction.empty()) return {};
  number.numerator = without_leading_zeros(whole + fraction);
  number.denominator = power_of_ten(fraction.size());
  const bool whole_value = fraction.find_first_not_of('0') == std::string::npos;
  number.form = whole_value ? WrittenNumber::Form::kInteger : WrittenNumber::Form::kOther;
  if (take(text, 'e')) {
    number.form = WrittenNumber::Form::kOther;
    if (!take_exponent(text, number)) return {};
  }
  if (!text.empty()) return {};
  return number;
}

}  // namespace

std::optional<WrittenNumber> parse_number(std::string_view text) {
  if (text.size() > kMaxDigits) return {};
  const bool negative = take(text, '-');
  if (!negative) take(text, '+');
  const std::string first = take_digits(text);
  std::optional<WrittenNumber> number;
  std::string whole;
  if (!first.empty() && take(text, ' ')) {
    whole = first;
  } else if (text.empty() || text.front() != '/') {
    number = decimal(first, text);
    if (number) number->negative = negative;
    return number;
  }
  // A fraction, after a whole number or alone.
  const std::string numerator = whole.empty() ? first : take_digits(text);
  if (numerator.empty() || !take(text, '/')) return {};
  const std::string denominator = without_leading_zeros(take_digits(text));
  if (denominator == "0" || !text.empty()) return {};
  number.emplace();
  number->negative = negative;
  number->numerator = without_leading_zeros(numerator);
  number->denominator = denominator;
  number->form = WrittenNumber::Form::kFraction;
  if (!whole.empty()) {
    number->numerator = add(multiply(without_leading_zeros(whole), denominator), number->numerator);
    number->form = WrittenNumber::Form::kOther;
  }
  return number;
}

bool equal_values(const WrittenNumber& a, const WrittenNumber& b) {
  if (a.numerator == "0" || b.numerator == "0") return a.numerator == b.numerator;
  return a.negative == b.negative &&
         multiply(a.numerator, b.denominator) == multiply(b.numerator, a.denominator);
}

}  // namespace tandem::train
