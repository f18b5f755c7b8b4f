#include "text/grammar/schema_validator.h"

#include <algorithm>
#include <cmath>
#include <regex>

namespace tandem::grammar_testing {
namespace {

using Json = nlohmann::json;

bool has_type(const Json& value, const std::string& type) {
  if (type == "integer") return value.is_number() && std::floor(value.get<double>()) == value;
  if (type == "number") return value.is_number();
  return type == (value.is_number() ? "number" : value.type_name());
}

std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string check_number(double value, const Json& schema) {
  if (schema.contains("minimum") && value < schema["minimum"].get<double>()) return "minimum";
  if (schema.contains("maximum") && value > schema["maximum"].get<double>()) return "maximum";
  if (schema.contains("exclusiveMinimum") && value <= schema["exclusiveMinimum"].get<double>()) {
    return "exclusiveMinimum";
  }
  if (schema.contains("exclusiveMaximum") && value >= schema["exclusiveMaximum"].get<double>()) {
    return "exclusiveMaximum";
  }
  if (schema.contains("multipleOf")) {
    const double quotient = value / schema["multipleOf"].get<double>();
    if (std::abs(quotient - std::round(quotient)) > 1e-6) return "multipleOf";
  }
  return {};
}

std::string check_string(const std::string& value, const Json& schema) {
  if (characters(value) < schema.value("minLength", std::size_t{0})) return "minLength";
  if (characters(value) > schema.value("maxLength", SIZE_MAX)) return "maxLength";
  if (schema.contains("pattern") &&
      !std::regex_search(value, std::regex(schema["pattern"].get<std::string>()))) {
    return "pattern";
  }
  return {};
}

std::string check_array(const Json& value, const Json& schema, const Json& root) {
  if (value.size() < schema.value("minItems", std::size_t{0})) return "minItems";
  if (value.size() > schema.value("maxItems", SIZE_MAX)) return "maxItems";
  const Json first = schema.value("prefixItems", Json::array());
  const Json rest = schema.value("items", Json(true));
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string wrong = violation(value[i], i < first.size() ? first[i] : rest, root);
    if (!wrong.empty()) return "items/" + wrong;
  }
  return {};
}

std::string check_object(const Json& value, const Json& schema, const Json& root) {
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.contains(name)) return "required";
  }
  const Json properties = schema.value("properties", Json::object());
  const Json rest = schema.value("additionalProperties", Json(true));
  for (const auto& [key, item] : value.items()) {
    const Json& rule = properties.contains(key) ? properties[key] : rest;
    const std::string wrong = violation(item, rule, root);
    if (!wrong.empty()) return key + "/" + wrong;
  }
  return {};
}

std::string check_combinations(const Json& value, const Json& schema, const Json& root) {
  if (schema.contains("$ref")) {
    const auto pointer = Json::json_pointer(schema["$ref"].get<std::string>().substr(1));
    const std::string wrong = violation(value, root.at(pointer), root);
    if (!wrong.empty()) return wrong;
  }
  for (const Json& part : schema.value("allOf", Json::array())) {
    const std::string wrong = violation(value, part, root);
    if (!wrong.empty()) return "allOf/" + wrong;
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    const Json parts = schema.value(key, Json::array());
    const bool fits = std::any_of(parts.begin(), parts.end(), [&](const Json& part) {
      return violation(value, part, root).empty();
    });
    if (!parts.empty() && !fits) return key;
  }
  return {};
}

}  // namespace

std::string violation(const Json& value, const Json& schema, const Json& root) {
  if (schema.is_boolean()) return schema.get<bool>() ? "" : "false";
  if (schema.contains("type")) {
    const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
    const bool fits = std::any_of(types.begin(), types.end(), [&](const Json& type) {
      return has_type(value, type.get<std::string>());
    });
    if (!fits) return "type";
  }
  if (schema.contains("const") && value != schema["const"]) return "const";
  if (schema.contains("enum")) {
    const Json& list = schema["enum"];
    if (std::find(list.begin(), list.end(), value) == list.end()) return "enum";
  }
  std::string wrong = check_combinations(value, schema, root);
  if (!wrong.empty()) return wrong;
  if (value.is_number()) return check_number(value.get<double>(), schema);
  if (value.is_string()) return check_string(value.get<std::string>(), schema);
  if (value.is_array()) return check_array(value, schema, root);
  if (value.is_object()) return check_object(value, schema, root);
  return {};
}

}  // namespace tandem::grammar_testing
