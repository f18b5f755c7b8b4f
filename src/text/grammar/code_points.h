// Sets of characters, and how they are spelt in bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/grammar/expression.h"

namespace tandem::grammar {

// First and last of a run of code points.
struct CodePointRange {
  char32_t first, last;
  bool operator==(const CodePointRange&) const = default;
};

// Disjoint ascending runs without surrogates: what a character of a text can be.
class CodePointSet {
 public:
  CodePointSet() = default;
  explicit CodePointSet(std::vector<CodePointRange> ranges);
  static CodePointSet all();

  CodePointSet complement() const;
  const std::vector<CodePointRange>& ranges() const { return ranges_; }

 private:
  std::vector<CodePointRange> ranges_;
};

enum class Spelling {
  kText,  // UTF-8
  kJson,  // inside a JSON string: escapes where RFC 8259 demands them, in their shortest form
};

// One character of the set.
ExprId character(RuleBook* book, const CodePointSet& set, Spelling spelling);
// The text as it is spelt, UTF-8 to bytes.
std::string spell(std::string_view text, Spelling spelling);

// One character inside a JSON string in any spelling that RFC 8259 allows, surrogates in pairs.
ExprId any_json_character(RuleBook* book);

}  // namespace tandem::grammar
