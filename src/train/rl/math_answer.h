// Whether two answers to a mathematics problem are the same, and where an answer stands in a text.
//
// Two answers are equal if their normal forms as strings are, or if they are equal numbers, tuples,
// intervals or lists of such: whole numbers, fractions and decimals exactly, of any size. Anything
// else is compared as a string alone. No input is an error.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem::train {

// Rules that surprise: two written fractions are equal only if written alike (2/4 is not 1/2), and
// a whole number equals only a whole number (4/2 is not 2, 2.0 is).
bool same_answer(std::string_view given, std::string_view expected);

// The content of the last \boxed{...} (braces matched), or of the last \fbox{...} if there is none.
std::optional<std::string_view> last_boxed(std::string_view text);

// What follows the reasoning: after the last "</think>", or K3's response marker
// "<|open|>response<|sep|>", or "###Response". Nothing if there is none of them.
std::optional<std::string_view> after_reasoning(std::string_view text);

// The string normal form: LaTeX spelled one way, units, signs of money and per cent, and a short
// "x =" gone, spaces removed.
std::string string_normal_form(std::string_view text);

}  // namespace tandem::train
