#include "text/grammar/decimal.h"

#include <algorithm>
#include <charconv>

namespace tandem::grammar {
namespace {

int compare_magnitudes(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

std::string add_one(std::string digits) {
  std::size_t i = digits.size();
  while (i > 0 && digits[i - 1] == '9') digits[--i] = '0';
  if (i == 0) return "1" + digits;
  ++digits[i - 1];
  return digits;
}

// Of a number above zero.
std::string subtract_one(std::string digits) {
  std::size_t i = digits.size();
  while (digits[i - 1] == '0') digits[--i] = '9';
  --digits[i - 1];
  if (digits.size() > 1 && digits[0] == '0') digits.erase(0, 1);
  return digits;
}

Integer make(bool negative, std::string digits) {
  return {negative && digits[0] != '0', std::move(digits)};
}

}  // namespace

int compare(const Integer& a, const Integer& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int magnitudes = compare_magnitudes(a.digits, b.digits);
  return a.negative ? -magnitudes : magnitudes;
}

Integer negated(Integer value) { return make(!value.negative, std::move(value.digits)); }

Integer plus_one(Integer value) {
  return value.negative ? make(true, subtract_one(std::move(value.digits)))
                        : make(false, add_one(std::move(value.digits)));
}

Integer minus_one(Integer value) { return negated(plus_one(negated(std::move(value)))); }

Integer largest_of(std::size_t digits) { return {false, std::string(digits, '9')}; }

Decimal::Decimal(std::string_view text) {
  negative_ = text.starts_with('-');
  if (negative_) text.remove_prefix(1);
  const std::size_t e = text.find_first_of("eE");
  if (e != std::string_view::npos) {
    const std::size_t first = e + 1 + (text[e + 1] == '+' ? 1 : 0);
    std::from_chars(text.data() + first, text.data() + text.size(), exponent_);
    text = text.substr(0, e);
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.') {
      exponent_ -= static_cast<int>(text.size() - i - 1);
    } else {
      digits_ += text[i];
    }
  }
  digits_.erase(0, std::min(digits_.find_first_not_of('0'), digits_.size() - 1));
}

bool Decimal::shifted(int scale, std::string* digits) const {
  *digits = digits_;
  const int shift = exponent_ + scale;
  if (digits_ == "0") return true;
  if (shift >= 0) {
    digits->append(static_cast<std::size_t>(shift), '0');
    return true;
  }
  const auto cut = std::min(static_cast<std::size_t>(-shift), digits_.size());
  const bool exact = digits_.find_last_not_of('0') < digits_.size() - cut;
  digits->resize(digits_.size() - cut);
  if (digits->empty()) digits->push_back('0');
  return exact;
}

bool Decimal::is_integer(int scale) const {
  std::string digits;
  return shifted(scale, &digits);
}

Integer Decimal::floor(int scale) const {
  std::string digits;
  const bool exact = shifted(scale, &digits);
  return make(negative_, negative_ && !exact ? add_one(std::move(digits)) : std::move(digits));
}

Integer Decimal::ceil(int scale) const {
  std::string digits;
  const bool exact = shifted(scale, &digits);
  return make(negative_, !negative_ && !exact ? add_one(std::move(digits)) : std::move(digits));
}

}  // namespace tandem::grammar
