// JSON schemas as the compiler reads them: places, and the keywords that it knows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/json_text.h"

namespace tandem::grammar {

// A schema and where it stands, as a URI fragment: "#/properties/age". Refers to a JsonValue of the
// document or of the compiler, which outlives it.
struct SchemaNode {
  const JsonValue* value;
  std::string path;

  // The value of a keyword, nullptr if it is absent.
  const JsonValue* find(std::string_view keyword) const;
  bool has(std::string_view keyword) const { return find(keyword) != nullptr; }
  // What stands under a keyword or an index, as a place of its own.
  SchemaNode child(std::string_view keyword) const;
  SchemaNode child(std::string_view keyword, std::size_t index) const;
  SchemaNode child(std::string_view keyword, std::size_t index, std::string_view name) const;
};

// An error at a place, whose message begins with it.
tl::unexpected<Status> schema_error(std::string path, std::string_view what);
// The same for a keyword of a node.
tl::unexpected<Status> keyword_error(const SchemaNode& node, std::string_view keyword,
                                     std::string_view what);
// `token` as one part of a path (RFC 6901).
std::string path_part(std::string_view token);

enum class KeywordRole {
  kAnnotation,  // says nothing about the value
  kConstraint,
  kCombination,  // $ref, allOf, anyOf, oneOf
};
// nullopt: a keyword that is not supported.
std::optional<KeywordRole> keyword_role(std::string_view keyword);

// Refuses a schema that is neither an object nor a boolean, a keyword that is not supported, and a
// keyword whose value has the wrong type.
Result<void> check_schema(const SchemaNode& node);

// Values of keywords whose type check_schema() has checked; nullopt if absent.
Result<std::optional<std::int64_t>> count_of(const SchemaNode& node, std::string_view keyword);
std::vector<std::string> strings_of(const SchemaNode& node, std::string_view keyword);

// Bits of types; an integer is a number, too.
enum TypeBits : unsigned {
  kNullType = 1,
  kBooleanType = 2,
  kIntegerType = 4,
  kFractionType = 8,  // numbers that are not integers
  kNumberType = kIntegerType | kFractionType,
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kAnyType = 127,
};
// The types that "type" allows; without it, those that the other keywords are about, all if none
// is.
unsigned types_of(const SchemaNode& node);
// The types of values that a keyword constrains; 0 for keywords about all of them.
unsigned types_about(std::string_view keyword);
// The type of a value; numbers without fraction are integers.
unsigned type_of(const JsonValue& value);

}  // namespace tandem::grammar
