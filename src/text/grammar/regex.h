// Regular expressions as expressions over bytes.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/grammar/automaton.h"
#include "text/grammar/budget.h"
#include "text/grammar/code_points.h"

namespace tandem::grammar {

enum class RegexMatch {
  kWhole,   // the text is a match
  kSearch,  // the text contains a match, as in JSON Schema's "pattern"
};

// The automaton of the texts that match, spelt as given. ECMA-262 syntax with the u flag: literals,
// ".", classes, groups, alternatives, greedy and lazy quantifiers, "^" and "$", escapes of classes
// and of characters. What no automaton can do, or is not supported (look-around, back-references,
// word boundaries, \p), is refused with its place.
Result<Automaton> regex_automaton(std::string_view pattern, RegexMatch match, Spelling spelling,
                                  Budget* budget);

}  // namespace tandem::grammar
