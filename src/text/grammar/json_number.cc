#include "text/grammar/json_number.h"

#include <algorithm>

namespace tandem::grammar {
namespace {

ByteRange digits_between(char first, char last) {
  return {static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last)};
}

// Numbers from `low` to `high`, digit strings of equal length, each as one range per digit.
class DigitPatterns {
 public:
  using Pattern = std::vector<ByteRange>;

  static std::vector<Pattern> between(const std::string& low, const std::string& high) {
    DigitPatterns patterns;
    patterns.add(low, high, 0);
    return std::move(patterns.out_);
  }

 private:
  void add(const std::string& low, const std::string& high, std::size_t at) {
    const bool all_below = low.find_first_not_of('0', at) == std::string::npos &&
                           high.find_first_not_of('9', at) == std::string::npos;
    if (all_below) {
      Pattern pattern = prefix_;
      pattern.resize(low.size(), digits_between('0', '9'));
      out_.push_back(std::move(pattern));
      return;
    }
    if (low[at] == high[at]) {
      prefix_.push_back(digits_between(low[at], low[at]));
      add(low, high, at + 1);
      prefix_.pop_back();
      return;
    }
    // The first digit of `low`, the digits between, the first digit of `high`.
    const std::size_t rest = low.size() - at - 1;
    add(low, low.substr(0, at + 1) + std::string(rest, '9'), at);
    if (high[at] - low[at] > 1) {
      Pattern pattern = prefix_;
      pattern.push_back(
          digits_between(static_cast<char>(low[at] + 1), static_cast<char>(high[at] - 1)));
      pattern.resize(low.size(), digits_between('0', '9'));
      out_.push_back(std::move(pattern));
    }
    add(high.substr(0, at + 1) + std::string(rest, '0'), high, at);
  }

  Pattern prefix_;
  std::vector<Pattern> out_;
};

// Adds the numbers low .. high, both >= 0, divided by 10^fraction and written in full.
void add_magnitudes(RuleBook* book, const Integer& low, const Integer& high, std::size_t fraction,
                    std::string_view sign, std::vector<ExprId>* out) {
  if (compare(low, high) > 0) return;
  for (std::size_t length = low.digits.size(); length <= high.digits.size(); ++length) {
    std::string first = "1" + std::string(length - 1, '0');
    std::string last(length, '9');
    if (length == low.digits.size()) first = low.digits;
    if (length == high.digits.size()) last = high.digits;
    if (length <= fraction) {
      first.insert(0, fraction + 1 - length, '0');
      last.insert(0, fraction + 1 - length, '0');
    }
    for (const auto& pattern : DigitPatterns::between(first, last)) {
      std::vector<ExprId> parts{book->literal(sign)};
      for (std::size_t i = 0; i < pattern.size(); ++i) {
        if (fraction > 0 && i == pattern.size() - fraction) parts.push_back(book->literal("."));
        parts.push_back(book->bytes({pattern[i]}));
      }
      out->push_back(book->sequence(std::move(parts)));
    }
  }
}

// The numbers within the bounds that have exactly `fraction` digits after the point.
void add_scaled(RuleBook* book, const NumberBounds& bounds, int fraction,
                std::vector<ExprId>* out) {
  const Integer largest = largest_of(kMaxWholeDigits + static_cast<std::size_t>(fraction));
  Integer low = negated(largest), high = largest;
  if (const auto& minimum = bounds.minimum) {
    Integer bound = minimum->value.ceil(fraction);
    if (minimum->exclusive && minimum->value.is_integer(fraction)) bound = plus_one(bound);
    if (compare(bound, low) > 0) low = bound;
  }
  if (const auto& maximum = bounds.maximum) {
    Integer bound = maximum->value.floor(fraction);
    if (maximum->exclusive && maximum->value.is_integer(fraction)) bound = minus_one(bound);
    if (compare(bound, high) < 0) high = bound;
  }
  const Integer zero, one{false, "1"};
  const auto digits = static_cast<std::size_t>(fraction);
  const Integer above = low.negative ? zero : low;
  if (!high.negative) add_magnitudes(book, above, high, digits, "", out);
  const Integer below = high.negative ? negated(high) : one;
  if (low.negative) add_magnitudes(book, below, negated(low), digits, "-", out);
}

// "-?" and digits whose value `divisor` divides.
Automaton multiples_of(std::int64_t divisor) {
  Automaton out;
  out.states.resize(static_cast<std::size_t>(divisor) + 1);
  // State 0 is the start, state 1 + r has read digits whose remainder is r.
  for (std::int64_t from = -1; from < divisor; ++from) {
    Automaton::State& state = out.states[static_cast<std::size_t>(from + 1)];
    if (from < 0) state.edges.push_back({digits_between('-', '-'), 0});
    for (int digit = 0; digit < 10; ++digit) {
      const auto target = (std::max<std::int64_t>(from, 0) * 10 + digit) % divisor + 1;
      const char c = static_cast<char>('0' + digit);
      state.edges.push_back({digits_between(c, c), static_cast<StateId>(target)});
    }
    state.accepting = from == 0;
  }
  return out;
}

ExprId free_number(RuleBook* book) {
  const ExprId digit = book->bytes({digits_between('0', '9')});
  const ExprId whole = book->choice(
      {book->literal("0"),
       book->sequence({book->bytes({digits_between('1', '9')}),
                       book->repeat(digit, 0, static_cast<std::int64_t>(kMaxWholeDigits) - 1)})});
  const ExprId fraction =
      book->sequence({book->literal("."), book->repeat(digit, 1, kFreeFraction)});
  const ExprId exponent = book->sequence(
      {book->bytes({digits_between('E', 'E'), digits_between('e', 'e')}),
       book->optional(book->bytes({digits_between('+', '+'), digits_between('-', '-')})),
       book->repeat(digit, 1, 2)});
  return book->sequence({book->optional(book->literal("-")), whole, book->optional(fraction),
                         book->optional(exponent)});
}

}  // namespace

Result<ExprId> number_expression(RuleBook* book, const NumberBounds& bounds, Budget* budget) {
  const bool is_free = !bounds.minimum && !bounds.maximum && !bounds.integers_only;
  if (is_free && bounds.any_fraction()) return free_number(book);
  std::vector<ExprId> choices;
  const int max_fraction = bounds.integers_only ? 0 : bounds.max_fraction;
  for (int fraction = 0; fraction <= max_fraction; ++fraction) {
    add_scaled(book, bounds, fraction, &choices);
  }
  const ExprId in_range = book->choice(std::move(choices));
  if (bounds.divisor == 1) return in_range;
  const Automaton range = TRY(build_automaton(*book, in_range, budget));
  return book->automaton(TRY(combine(range, multiples_of(bounds.divisor), Combine::kBoth, budget)));
}

}  // namespace tandem::grammar
