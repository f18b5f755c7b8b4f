#include "text/grammar/schema_variants.h"

#include <algorithm>
#include <charconv>

#include "text/grammar/schema_merge.h"

namespace tandem::grammar {
namespace {

using Kind = JsonValue::Kind;

constexpr std::size_t kMaxVariants = 256;
constexpr int kMaxDepth = 64;

// "%41" -> "A"; other text stays.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const char* const hex = text.data() + i + 1;
    const bool is_escape = text[i] == '%' && i + 2 < text.size() &&
                           std::from_chars(hex, hex + 2, code, 16).ptr == hex + 2;
    out.push_back(is_escape ? static_cast<char>(code) : text[i]);
    if (is_escape) i += 2;
  }
  return out;
}

std::string pointer_decoded(std::string_view part) {
  std::string out;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const bool is_escape = part[i] == '~' && i + 1 < part.size();
    if (!is_escape) {
      out.push_back(part[i]);
      continue;
    }
    out.push_back(part[++i] == '1' ? '/' : '~');
  }
  return out;
}

// The value under a key or an index, nullptr if there is none.
const JsonValue* step_into(const JsonValue& value, const std::string& key) {
  if (value.kind == Kind::kObject) return SchemaNode{&value, {}}.find(key);
  std::size_t index = 0;
  const auto end = std::from_chars(key.data(), key.data() + key.size(), index);
  const bool valid = value.kind == Kind::kArray && !key.empty() && end.ec == std::errc() &&
                     end.ptr == key.data() + key.size() && index < value.items.size();
  return valid ? &value.items[index] : nullptr;
}

}  // namespace

Result<SchemaNode> SchemaVariants::resolve(const SchemaNode& node) const {
  std::string reference = node.find("$ref")->text;
  const JsonValue* id = SchemaNode{&root_, {}}.find("$id");
  if (id && !id->text.empty() && reference.starts_with(id->text)) {
    reference.erase(0, id->text.size());
    if (reference.empty()) reference = "#";
  }
  const std::string pointer = percent_decoded(reference);
  const JsonValue* at = &root_;
  std::string path = "#";
  bool found = pointer == "#" || pointer.starts_with("#/");
  for (std::size_t begin = 2; found && begin <= pointer.size();) {
    const std::size_t end = std::min(pointer.find('/', begin), pointer.size());
    const std::string key = pointer_decoded(std::string_view(pointer).substr(begin, end - begin));
    at = step_into(*at, key);
    found = at != nullptr;
    path += "/" + path_part(key);
    begin = end + 1;
  }
  if (!found) return keyword_error(node, "$ref", "points to nothing in this schema");
  return SchemaNode{at, std::move(path)};
}

Result<SchemaVariants::Nodes> SchemaVariants::cross(const SchemaNode& at, std::string_view keyword,
                                                    const Nodes& first, const Nodes& second) {
  if (first.size() * second.size() > kMaxVariants) {
    return keyword_error(at, keyword, "leads to too many combinations");
  }
  Nodes out;
  for (const SchemaNode& a : first) {
    for (const SchemaNode& b : second) {
      if (a.value->keys.empty() || b.value->keys.empty()) {
        out.push_back(a.value->keys.empty() ? b : a);
        continue;
      }
      made_.push_back(TRY(merge_schemas({a.value, at.path}, b)));
      out.push_back({&made_.back(), at.path});
    }
  }
  return out;
}

Result<SchemaVariants::Nodes> SchemaVariants::expand_combination(const SchemaNode& node,
                                                                 std::string_view keyword) {
  if (keyword == "$ref") {
    const SchemaNode target = TRY(resolve(node));
    if (std::find(followed_.begin(), followed_.end(), target.path) != followed_.end()) {
      return keyword_error(node, keyword, "leads back to itself");
    }
    followed_.push_back(target.path);
    Nodes out = TRY(expand(target));
    followed_.pop_back();
    return out;
  }
  Nodes out;
  for (std::size_t i = 0; i < node.find(keyword)->items.size(); ++i) {
    Nodes part = TRY(expand(node.child(keyword, i)));
    if (keyword == "allOf") {
      out = i == 0 ? std::move(part) : TRY(cross(node, keyword, out, part));
    } else {
      out.insert(out.end(), part.begin(), part.end());
    }
    if (out.size() > kMaxVariants) {
      return keyword_error(node, keyword, "leads to too many combinations");
    }
  }
  return out;
}

Result<SchemaVariants::Nodes> SchemaVariants::expand(const SchemaNode& node) {
  TRY(check_schema(node));
  if (node.value->kind == Kind::kBoolean) {
    if (node.value->text == "false") return Nodes{};
    made_.push_back({Kind::kObject, {}, {}, {}});
    return Nodes{{&made_.back(), node.path}};
  }
  if (++depth_ > kMaxDepth) return schema_error(node.path, "is nested too deep");
  JsonValue plain{Kind::kObject, {}, {}, {}};
  for (std::size_t i = 0; i < node.value->keys.size(); ++i) {
    const std::string& key = node.value->keys[i];
    if (keyword_role(key) != KeywordRole::kConstraint) continue;
    // "const" is an "enum" of one value, which is easier to merge.
    const bool is_const = key == "const" && !node.has("enum");
    plain.keys.push_back(is_const ? "enum" : key);
    const JsonValue& value = node.value->items[i];
    plain.items.push_back(is_const ? JsonValue{Kind::kArray, {}, {}, {value}} : value);
  }
  made_.push_back(std::move(plain));
  Nodes out{{&made_.back(), node.path}};
  for (const std::string& key : node.value->keys) {
    if (keyword_role(key) != KeywordRole::kCombination) continue;
    const Nodes more = TRY(expand_combination(node, key));
    out = TRY(cross(node, key, out, more));
  }
  --depth_;
  return out;
}

}  // namespace tandem::grammar
