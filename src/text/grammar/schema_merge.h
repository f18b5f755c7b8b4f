// The schema of the values that two schemas allow.
#pragma once

#include "base/status.h"
#include "text/grammar/schema_node.h"

namespace tandem::grammar {

// Both hold constraints only, no combining keywords. Keywords that cannot be merged are refused by
// name, at the place of `first`.
Result<JsonValue> merge_schemas(const SchemaNode& first, const SchemaNode& second);

}  // namespace tandem::grammar
