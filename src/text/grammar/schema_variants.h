// Resolves $ref, allOf, anyOf and oneOf where they stand beside other constraints.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/grammar/schema_node.h"

namespace tandem::grammar {

// Turns a schema into alternatives without combining keywords. Single owner; the nodes that it
// returns live as long as it does.
class SchemaVariants {
 public:
  // `root` must outlive this.
  explicit SchemaVariants(const JsonValue& root) : root_(root) {}

  // What the "$ref" of a node points to, within the document only.
  Result<SchemaNode> resolve(const SchemaNode& node) const;

  // A value is valid under `node` if and only if it is valid under one of the results, which hold
  // constraints only. oneOf is read as anyOf.
  Result<std::vector<SchemaNode>> expand(const SchemaNode& node);

 private:
  using Nodes = std::vector<SchemaNode>;

  Result<Nodes> expand_combination(const SchemaNode& node, std::string_view keyword);
  // Every pair of the two lists merged.
  Result<Nodes> cross(const SchemaNode& at, std::string_view keyword, const Nodes& first,
                      const Nodes& second);

  const JsonValue& root_;
  std::deque<JsonValue> made_;         // merged schemas; addresses stay
  std::vector<std::string> followed_;  // the $refs being expanded, outermost first
  int depth_ = 0;
};

}  // namespace tandem::grammar
