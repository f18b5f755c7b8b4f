// JSON schemas as rules.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/grammar/code_points.h"
#include "text/grammar/json_rules.h"
#include "text/grammar/schema_variants.h"

namespace tandem::grammar {

// Compiles the schemas of one document into rules of a book. Single owner.
class SchemaCompiler {
 public:
  // All must outlive this. `document` is what $refs point into; `rules` belong to `book`, and
  // compilers of several documents may share them.
  SchemaCompiler(const JsonValue& document, RuleBook* book, JsonRules* rules, Budget* budget)
      : book_(book), budget_(budget), rules_(*rules), variants_(document) {}

  // The values that are valid under a node, as JSON text.
  Result<RuleId> compile(const SchemaNode& node);

  // One way to be an object: its members in order, and what any others have to be.
  struct ObjectForm {
    struct Member {
      std::string key;
      SchemaNode schema;
      bool required;
    };
    std::vector<Member> members;
    std::optional<SchemaNode> others;
    std::vector<std::string> keys() const;
  };
  // The ways to be valid under a node of which every valid value is an object.
  Result<std::vector<ObjectForm>> object_forms(const SchemaNode& node);
  // Its objects, as JSON text.
  Result<ExprId> object(const ObjectForm& form);

  // The values of one type that are valid under a node: strings as they are, without quotes and
  // escapes, others as JSON text.
  struct TypedValue {
    std::string_view type;  // string, number, boolean, null, array or object
    ExprId value;
  };
  Result<std::vector<TypedValue>> typed_values(const SchemaNode& node);

  // Compiles what $refs have asked for. Call last.
  Result<void> finish();

 private:
  // The values that are valid under a node.
  Result<ExprId> value(const SchemaNode& node);
  Result<ExprId> combined(const SchemaNode& node);
  // A node without combining keywords.
  Result<ExprId> constrained(const SchemaNode& node);
  Result<std::vector<JsonValue>> enumerated(const SchemaNode& node);
  // Drops the values that the keywords beside "enum" rule out.
  Result<void> keep_matching(const SchemaNode& node, std::vector<JsonValue>* values);
  Result<ObjectForm> object_form(const SchemaNode& node);
  Result<ExprId> object(const SchemaNode& node);
  Result<ExprId> array(const SchemaNode& node);
  Result<ExprId> string(const SchemaNode& node, Spelling spelling);
  Result<ExprId> number(const SchemaNode& node, bool integers_only);
  Result<ExprId> reference(const SchemaNode& node);
  // The node, or its alternatives where it has combining keywords.
  Result<std::vector<SchemaNode>> plain_nodes(const SchemaNode& node);
  Result<void> add_typed(const SchemaNode& node, std::map<unsigned, std::vector<ExprId>>* by_type);
  // `body` as a rule of its own, so that it is written once however often it is used.
  ExprId as_rule(const SchemaNode& node, ExprId body);

  RuleBook* book_;
  Budget* budget_;
  JsonRules& rules_;
  SchemaVariants variants_;
  std::map<std::string, RuleId> references_;  // by path
  std::deque<std::pair<RuleId, SchemaNode>> pending_;
  int depth_ = 0;
};

}  // namespace tandem::grammar
