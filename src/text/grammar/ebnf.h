// Grammars written as text.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/grammar/expression.h"

namespace tandem::grammar {

// Reads a grammar in GBNF notation (llama.cpp, XGrammar) into a book and returns its rule "root":
// `name ::= alternatives`, "literal", [class], ".", groups, "|", "*", "+", "?", "{n,m}",
// "#" comments. A rule goes on until the next `name ::=`. Errors begin with "line:column".
Result<RuleId> parse_ebnf(std::string_view text, RuleBook* book);

}  // namespace tandem::grammar
