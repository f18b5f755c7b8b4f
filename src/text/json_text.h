// JSON as the models' prompts spell it: the spelling of Python's json.dumps(ensure_ascii=False).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem {

// One JSON value. Numbers keep Python's spelling (integers of any size digit by digit), objects the
// order of their keys; a repeated key keeps its first place and its last value.
struct JsonValue {
  enum class Kind { kNull, kBoolean, kNumber, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  std::string text;               // strings decoded; other scalars as spelt
  std::vector<std::string> keys;  // of an object, one an item
  std::vector<JsonValue> items;   // of an array or object
};

// The value of `key`, nullptr if the object has none.
const JsonValue* find_member(const JsonValue& object, std::string_view key);
bool is_null(const JsonValue& value);
// find_member() unless it is null, which counts as left out.
const JsonValue* find_present(const JsonValue& object, std::string_view key);

// Refuses what is not JSON, what nests deeper than 256 and numbers outside the range of a double.
Result<JsonValue> parse_json(std::string_view text);

enum class JsonStyle {
  kSpaced,         // ", " and ": ", keys in their order
  kCompactSorted,  // "," and ":", keys sorted at every level
};
std::string to_json(const JsonValue& value, JsonStyle style);

// `text` as the inside of a JSON string: quotes, backslashes and control characters escaped. May be
// applied piece by piece.
std::string escape_json(std::string_view text);

}  // namespace tandem
