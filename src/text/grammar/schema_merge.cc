#include "text/grammar/schema_merge.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>

namespace tandem::grammar {
namespace {

using Kind = JsonValue::Kind;

void set(JsonValue* object, std::string_view key, JsonValue value) {
  object->keys.emplace_back(key);
  object->items.push_back(std::move(value));
}

JsonValue all_of(const JsonValue& first, const JsonValue& second) {
  JsonValue out{.kind = Kind::kObject, .text = {}, .keys = {}, .items = {}};
  set(&out, "allOf", {Kind::kArray, {}, {}, {first, second}});
  return out;
}

double number_of(const JsonValue& value) {
  double out = 0;
  std::from_chars(value.text.data(), value.text.data() + value.text.size(), out);
  return out;
}

bool same(const JsonValue& a, const JsonValue& b) {
  return to_json(a, JsonStyle::kCompactSorted) == to_json(b, JsonStyle::kCompactSorted);
}

bool contains(const JsonValue& list, const JsonValue& value) {
  return std::any_of(list.items.begin(), list.items.end(),
                     [&](const JsonValue& item) { return same(item, value); });
}

// The names of both lists.
JsonValue unite(const JsonValue& first, const JsonValue& second) {
  JsonValue out = first;
  for (const JsonValue& item : second.items) {
    if (!contains(out, item)) out.items.push_back(item);
  }
  return out;
}

// The values that both lists have.
JsonValue intersect(const JsonValue& first, const JsonValue& second) {
  JsonValue out = first;
  std::erase_if(out.items, [&](const JsonValue& item) { return !contains(second, item); });
  return out;
}

JsonValue intersect_types(const SchemaNode& first, const SchemaNode& second) {
  const unsigned bits = types_of(first) & types_of(second);
  JsonValue out{.kind = Kind::kArray, .text = {}, .keys = {}, .items = {}};
  constexpr std::pair<std::string_view, unsigned> kNames[] = {
      {"null", kNullType},     {"boolean", kBooleanType}, {"number", kNumberType},
      {"string", kStringType}, {"array", kArrayType},     {"object", kObjectType}};
  for (const auto& [name, wanted] : kNames) {
    const unsigned common = bits & wanted;
    if (common == 0) continue;
    out.items.push_back(
        {Kind::kString, std::string(common == kIntegerType ? "integer" : name), {}, {}});
  }
  return out;
}

class Merger {
 public:
  Merger(const SchemaNode& first, const SchemaNode& second) : first_(first), second_(second) {}

  Result<JsonValue> merge() {
    merge_objects();
    for (const SchemaNode* side : {&first_, &second_}) {
      for (std::size_t i = 0; i < side->value->keys.size(); ++i) {
        const std::string& key = side->value->keys[i];
        const bool done = std::find(out_.keys.begin(), out_.keys.end(), key) != out_.keys.end();
        if (done || key == "properties" || key == "additionalProperties") continue;
        const JsonValue* a = first_.find(key);
        const JsonValue* b = second_.find(key);
        set(&out_, key, a && b ? TRY(merge_values(key, *a, *b)) : side->value->items[i]);
      }
    }
    TRY(check_arrays());
    return std::move(out_);
  }

 private:
  Result<JsonValue> merge_values(const std::string& key, const JsonValue& a, const JsonValue& b) {
    if (key == "type") return intersect_types(first_, second_);
    if (key == "required") return unite(a, b);
    if (key == "enum") return intersect(a, b);
    if (key == "minimum" || key == "exclusiveMinimum" || key.starts_with("min")) {
      return number_of(a) >= number_of(b) ? a : b;
    }
    if (key == "maximum" || key == "exclusiveMaximum" || key.starts_with("max")) {
      return number_of(a) <= number_of(b) ? a : b;
    }
    if (same(a, b)) return a;
    const bool are_schemas = key == "items" && a.kind != Kind::kArray && b.kind != Kind::kArray;
    if (are_schemas) return all_of(a, b);
    return keyword_error(first_, key, "cannot be merged with that of the schema beside it");
  }

  // A property that one side does not name falls under that side's additionalProperties.
  void merge_objects() {
    const JsonValue empty{Kind::kObject, {}, {}, {}};
    const JsonValue* rest[] = {first_.find("additionalProperties"),
                               second_.find("additionalProperties")};
    const SchemaNode props[] = {
        {first_.has("properties") ? first_.find("properties") : &empty, {}},
        {second_.has("properties") ? second_.find("properties") : &empty, {}}};
    JsonValue merged = empty;
    for (const std::size_t side : {0u, 1u}) {
      for (std::size_t i = 0; i < props[side].value->keys.size(); ++i) {
        const std::string& key = props[side].value->keys[i];
        const JsonValue& here = props[side].value->items[i];
        const JsonValue* other = props[1 - side].find(key);
        if (side == 1 && other) continue;
        if (!other) other = rest[1 - side];
        set(&merged, key, other ? all_of(here, *other) : here);
      }
    }
    if (!merged.keys.empty()) set(&out_, "properties", std::move(merged));
    if (rest[0] || rest[1]) {
      set(&out_, "additionalProperties",
          rest[0] && rest[1] ? all_of(*rest[0], *rest[1]) : (rest[0] ? *rest[0] : *rest[1]));
    }
  }

  // Where a list of items ends on one side, the other side's items go on: not written out here.
  Result<void> check_arrays() {
    for (const std::string_view key : {"prefixItems", "additionalItems"}) {
      const bool differs = (first_.has(key) != second_.has(key)) &&
                           first_.has("items") + first_.has("prefixItems") > 0 &&
                           second_.has("items") + second_.has("prefixItems") > 0;
      if (differs) return keyword_error(first_, key, "cannot be merged with \"items\" beside it");
    }
    return {};
  }

  const SchemaNode& first_;
  const SchemaNode& second_;
  JsonValue out_{Kind::kObject, {}, {}, {}};
};

}  // namespace

Result<JsonValue> merge_schemas(const SchemaNode& first, const SchemaNode& second) {
  return Merger(first, second).merge();
}

}  // namespace tandem::grammar
