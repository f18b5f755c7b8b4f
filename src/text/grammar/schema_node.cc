#include "text/grammar/schema_node.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "text/grammar/decimal.h"
#include "text/grammar/expression.h"
#include "text/utf8.h"

namespace tandem::grammar {
namespace {

using Kind = JsonValue::Kind;

// What the value of a keyword has to be.
enum class Shape {
  kAnything,
  kSchema,
  kSchemaMap,
  kSchemaList,
  kSchemaOrList,
  kCount,
  kNumber,
  kString,
  kStringList,
  kList,
  kType,
  kFalse,
};

struct Keyword {
  std::string_view name;
  KeywordRole role;
  Shape shape;
  unsigned about = 0;  // the types that it constrains
};

constexpr auto kNote = KeywordRole::kAnnotation;
constexpr auto kRule = KeywordRole::kConstraint;
constexpr auto kJoin = KeywordRole::kCombination;

constexpr std::array kKeywords = {
    Keyword{"$ref", kJoin, Shape::kString},
    Keyword{"allOf", kJoin, Shape::kSchemaList},
    Keyword{"anyOf", kJoin, Shape::kSchemaList},
    Keyword{"oneOf", kJoin, Shape::kSchemaList},

    Keyword{"type", kRule, Shape::kType},
    Keyword{"enum", kRule, Shape::kList},
    Keyword{"const", kRule, Shape::kAnything},
    Keyword{"properties", kRule, Shape::kSchemaMap, kObjectType},
    Keyword{"required", kRule, Shape::kStringList, kObjectType},
    Keyword{"additionalProperties", kRule, Shape::kSchema, kObjectType},
    Keyword{"items", kRule, Shape::kSchemaOrList, kArrayType},
    Keyword{"prefixItems", kRule, Shape::kSchemaList, kArrayType},
    Keyword{"additionalItems", kRule, Shape::kSchema, kArrayType},
    Keyword{"minItems", kRule, Shape::kCount, kArrayType},
    Keyword{"maxItems", kRule, Shape::kCount, kArrayType},
    Keyword{"uniqueItems", kNote, Shape::kFalse},
    Keyword{"minLength", kRule, Shape::kCount, kStringType},
    Keyword{"maxLength", kRule, Shape::kCount, kStringType},
    Keyword{"pattern", kRule, Shape::kString, kStringType},
    Keyword{"format", kRule, Shape::kString},
    Keyword{"minimum", kRule, Shape::kNumber, kNumberType},
    Keyword{"maximum", kRule, Shape::kNumber, kNumberType},
    Keyword{"exclusiveMinimum", kRule, Shape::kNumber, kNumberType},
    Keyword{"exclusiveMaximum", kRule, Shape::kNumber, kNumberType},
    Keyword{"multipleOf", kRule, Shape::kNumber, kNumberType},

    Keyword{"$defs", kNote, Shape::kAnything},
    Keyword{"definitions", kNote, Shape::kAnything},
    Keyword{"$schema", kNote, Shape::kAnything},
    Keyword{"$id", kNote, Shape::kAnything},
    Keyword{"id", kNote, Shape::kAnything},
    Keyword{"$comment", kNote, Shape::kAnything},
    Keyword{"$anchor", kNote, Shape::kAnything},
    Keyword{"title", kNote, Shape::kAnything},
    Keyword{"description", kNote, Shape::kAnything},
    Keyword{"default", kNote, Shape::kAnything},
    Keyword{"example", kNote, Shape::kAnything},
    Keyword{"examples", kNote, Shape::kAnything},
    Keyword{"deprecated", kNote, Shape::kAnything},
    Keyword{"readOnly", kNote, Shape::kAnything},
    Keyword{"writeOnly", kNote, Shape::kAnything},
    Keyword{"contentEncoding", kNote, Shape::kAnything},
    Keyword{"contentMediaType", kNote, Shape::kAnything},
};

struct TypeName {
  std::string_view name;
  unsigned bits;
};
constexpr std::array kTypes = {
    TypeName{"null", kNullType},     TypeName{"boolean", kBooleanType},
    TypeName{"number", kNumberType}, TypeName{"integer", kIntegerType},
    TypeName{"string", kStringType}, TypeName{"array", kArrayType},
    TypeName{"object", kObjectType},
};

const Keyword* find_keyword(std::string_view name) {
  const auto it = std::find_if(kKeywords.begin(), kKeywords.end(),
                               [&](const Keyword& keyword) { return keyword.name == name; });
  return it == kKeywords.end() ? nullptr : &*it;
}

unsigned type_bits(const JsonValue& name) {
  for (const TypeName& type : kTypes) {
    if (name.kind == Kind::kString && type.name == name.text) return type.bits;
  }
  return 0;
}

bool is_schema(const JsonValue& value) {
  return value.kind == Kind::kObject || value.kind == Kind::kBoolean;
}

bool is_count(const JsonValue& value) {
  return value.kind == Kind::kNumber && !value.text.starts_with('-') &&
         Decimal(value.text).is_integer(0);
}

// What is expected instead, or nothing if the value is as it should be.
std::string_view complaint(const JsonValue& value, Shape shape) {
  const bool is_list = value.kind == Kind::kArray;
  const auto every = [&](auto test) {
    return std::all_of(value.items.begin(), value.items.end(), test);
  };
  const auto is_string = [](const JsonValue& item) { return item.kind == Kind::kString; };
  switch (shape) {
    case Shape::kAnything:
      return {};
    case Shape::kSchema:
      return is_schema(value) ? "" : "must be a schema";
    case Shape::kSchemaMap:
      return value.kind == Kind::kObject && every(is_schema) ? "" : "must be an object of schemas";
    case Shape::kSchemaList:
      return is_list && !value.items.empty() && every(is_schema) ? "" : "must be a list of schemas";
    case Shape::kSchemaOrList:
      return is_schema(value) || (is_list && every(is_schema)) ? "" : "must be a schema";
    case Shape::kCount:
      return is_count(value) ? "" : "must be an integer of at least 0";
    case Shape::kNumber:
      return value.kind == Kind::kNumber ? "" : "must be a number";
    case Shape::kString:
      return is_string(value) ? "" : "must be a string";
    case Shape::kStringList:
      return is_list && every(is_string) ? "" : "must be a list of strings";
    case Shape::kList:
      return is_list && !value.items.empty() ? "" : "must be a list that is not empty";
    case Shape::kType: {
      const bool known = is_list ? !value.items.empty() && every(type_bits) : type_bits(value) != 0;
      return known ? "" : "must be a type of JSON Schema or a list of such";
    }
    case Shape::kFalse:
      return value.kind == Kind::kBoolean && value.text == "false" ? "" : "is not supported";
  }
  return {};
}

}  // namespace

const JsonValue* SchemaNode::find(std::string_view keyword) const {
  return find_member(*value, keyword);
}

SchemaNode SchemaNode::child(std::string_view keyword) const {
  return {find(keyword), path + "/" + path_part(keyword)};
}

SchemaNode SchemaNode::child(std::string_view keyword, std::size_t index) const {
  return child(keyword, index, fmt::format("{}", index));
}

SchemaNode SchemaNode::child(std::string_view keyword, std::size_t index,
                             std::string_view name) const {
  return {&find(keyword)->items[index], path + "/" + path_part(keyword) + "/" + path_part(name)};
}

tl::unexpected<Status> schema_error(std::string path, std::string_view what) {
  constexpr std::size_t kLongest = 400;  // of a path, which a client may make as long as it likes
  if (path.size() > kLongest) path = repair_utf8(path.substr(0, kLongest)) + "...";
  std::string message = path + " " + std::string(what);
  return fail(Status{StatusCode::kInvalidArgument, std::move(message), std::move(path)});
}

tl::unexpected<Status> keyword_error(const SchemaNode& node, std::string_view keyword,
                                     std::string_view what) {
  return schema_error(node.path + "/" + path_part(keyword), what);
}

std::string path_part(std::string_view token) {
  std::string out;
  for (const char c : token) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

std::optional<KeywordRole> keyword_role(std::string_view keyword) {
  const Keyword* known = find_keyword(keyword);
  return known ? std::optional(known->role) : std::nullopt;
}

Result<void> check_schema(const SchemaNode& node) {
  if (!is_schema(*node.value)) return schema_error(node.path, "must be an object or a boolean");
  for (std::size_t i = 0; i < node.value->keys.size(); ++i) {
    const std::string& name = node.value->keys[i];
    const Keyword* keyword = find_keyword(name);
    if (!keyword) return keyword_error(node, name, "is not supported");
    const std::string_view wrong = complaint(node.value->items[i], keyword->shape);
    if (!wrong.empty()) return keyword_error(node, name, wrong);
  }
  return {};
}

Result<std::optional<std::int64_t>> count_of(const SchemaNode& node, std::string_view keyword) {
  const JsonValue* value = node.find(keyword);
  if (!value) return std::nullopt;
  const Integer count = Decimal(value->text).floor(0);
  std::int64_t out = 0;
  if (count.digits.size() < 18) {
    std::from_chars(count.digits.data(), count.digits.data() + count.digits.size(), out);
  }
  if (count.digits.size() >= 18 || out > RuleBook::kMaxRepeat) {
    return keyword_error(node, keyword, fmt::format("is above {}", RuleBook::kMaxRepeat));
  }
  return out;
}

std::vector<std::string> strings_of(const SchemaNode& node, std::string_view keyword) {
  std::vector<std::string> out;
  if (const JsonValue* list = node.find(keyword)) {
    for (const JsonValue& item : list->items) out.push_back(item.text);
  }
  return out;
}

unsigned types_of(const SchemaNode& node) {
  unsigned bits = 0;
  if (const JsonValue* type = node.find("type")) {
    if (type->kind == Kind::kString) return type_bits(*type);
    for (const JsonValue& name : type->items) bits |= type_bits(name);
    return bits;
  }
  for (const std::string& name : node.value->keys) {
    if (const Keyword* keyword = find_keyword(name)) bits |= keyword->about;
  }
  if (bits == 0 && node.has("format")) bits = kStringType;
  return bits == 0 ? kAnyType : bits;
}

unsigned types_about(std::string_view keyword) {
  const Keyword* known = find_keyword(keyword);
  return known ? known->about : 0;
}

unsigned type_of(const JsonValue& value) {
  switch (value.kind) {
    case Kind::kNull:
      return kNullType;
    case Kind::kBoolean:
      return kBooleanType;
    case Kind::kNumber:
      return Decimal(value.text).is_integer(0) ? kIntegerType : kFractionType;
    case Kind::kString:
      return kStringType;
    case Kind::kArray:
      return kArrayType;
    case Kind::kObject:
      return kObjectType;
  }
  return 0;
}

}  // namespace tandem::grammar
