// Grammars written as text.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/grammar/expression.h"

namespace tandem::grammar {

// Reads a grammar in GBNF notation (llama.cpp, XGrammar) into an empty book, with the rule "root"
// as rule 0: `name ::= alternatives`, "literal", [class], ".", groups, "|", "*", "+", "?", "{n,m}",
// "#" comments. A rule goes on until the next `name ::=`. Errors begin with "line:column".
Result<void> parse_ebnf(std::string_view text, RuleBook* book);

}  // namespace tandem::grammar
