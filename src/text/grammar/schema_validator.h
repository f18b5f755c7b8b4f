// An independent reading of JSON Schema, for tests of what the grammars let through.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tandem::grammar_testing {

// What is wrong with `value` under `schema`, within `root`; empty if it is valid. oneOf is read as
// anyOf, like the compiler's.
std::string violation(const nlohmann::json& value, const nlohmann::json& schema,
                      const nlohmann::json& root);

}  // namespace tandem::grammar_testing
