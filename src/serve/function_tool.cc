#include "serve/function_tool.h"

#include <string>
#include <utility>

#include "serve/json_fields.h"

namespace tandem {
namespace {

void add_member(JsonValue& object, std::string key, JsonValue value) {
  object.keys.push_back(std::move(key));
  object.items.push_back(std::move(value));
}

}  // namespace

JsonValue function_tool(const JsonValue& tool, std::string_view schema_key) {
  JsonValue function;
  function.kind = JsonValue::Kind::kObject;
  for (const auto& [key, name] : {std::pair<std::string_view, const char*>{"name", "name"},
                                  {"description", "description"},
                                  {schema_key, "parameters"},
                                  {"strict", "strict"}}) {
    const JsonValue* value = find_present(tool, key);
    if (value != nullptr) add_member(function, name, *value);
  }
  JsonValue type;
  type.kind = JsonValue::Kind::kString;
  type.text = "function";
  JsonValue wrapped;
  wrapped.kind = JsonValue::Kind::kObject;
  add_member(wrapped, "type", std::move(type));
  add_member(wrapped, "function", std::move(function));
  return wrapped;
}

}  // namespace tandem
