// JSON schemas as rules.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/grammar/json_rules.h"
#include "text/grammar/schema_variants.h"

namespace tandem::grammar {

// Compiles one schema into the rules of a book, the root first. Single owner, used once.
class SchemaCompiler {
 public:
  // All three must outlive this; `book` must be empty. `document` is what $refs point into.
  SchemaCompiler(const JsonValue& document, RuleBook* book, Budget* budget)
      : book_(book), budget_(budget), rules_(book, budget), variants_(document) {}

  // `root` becomes rule 0.
  Result<void> compile(const SchemaNode& root);

 private:
  // The values that are valid under a node.
  Result<ExprId> value(const SchemaNode& node);
  Result<ExprId> combined(const SchemaNode& node);
  // A node without combining keywords.
  Result<ExprId> constrained(const SchemaNode& node);
  Result<ExprId> enumerated(const SchemaNode& node);
  // Drops the values, as JSON spells them, that the keywords beside "enum" rule out.
  Result<void> keep_matching(const SchemaNode& node, std::vector<std::string>* texts);
  Result<ExprId> object(const SchemaNode& node);
  Result<ExprId> array(const SchemaNode& node);
  Result<ExprId> string(const SchemaNode& node);
  Result<ExprId> number(const SchemaNode& node, bool integers_only);
  Result<ExprId> reference(const SchemaNode& node);
  // `body` as a rule of its own, so that it is written once however often it is used.
  ExprId as_rule(const SchemaNode& node, ExprId body);

  RuleBook* book_;
  Budget* budget_;
  JsonRules rules_;
  SchemaVariants variants_;
  std::map<std::string, RuleId> references_;  // by path
  std::deque<std::pair<RuleId, SchemaNode>> pending_;
  int depth_ = 0;
};

}  // namespace tandem::grammar
