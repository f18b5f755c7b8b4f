#include "text/grammar/random_schema.h"

#include <string>
#include <vector>

namespace tandem::grammar_testing {
namespace {

using Json = nlohmann::ordered_json;

class Maker {
 public:
  explicit Maker(std::mt19937& random) : random_(random) {}

  Json make(int depth) {
    switch (pick(depth > 0 ? 12 : 6)) {
      case 0:
        return string();
      case 1:
        return number("integer");
      case 2:
        return number("number");
      case 3:
        return {{"type", Json::array({"boolean", "null"})}};
      case 4:
        return {{"enum", Json::array({1, "zwei", nullptr, 2.5, Json::array({"é"})})}};
      case 5:
        return {{"const", names_[pick(names_.size())]}, {"description", "ignored"}};
      case 6:
        return array(depth);
      case 7:
        return {{"anyOf", Json::array({make(depth - 1), make(depth - 1)})}};
      case 8:
        return {{"$ref", "#/$defs/node"}};
      case 9:
        return merged(depth);
      default:
        return object(depth);
    }
  }

 private:
  std::size_t pick(std::size_t count) { return random_() % count; }
  bool chance() { return pick(2) == 0; }

  Json string() {
    Json out{{"type", "string"}};
    if (pick(3) == 0) {
      out["pattern"] = std::vector<std::string>{"^[a-c]+$", "x", "^(foo|bar)?\\d{1,3}$"}[pick(3)];
    } else if (chance()) {
      out["minLength"] = pick(4);
      out["maxLength"] = 4 + pick(200);
    }
    return out;
  }
  Json number(const char* type) {
    Json out{{"type", type}};
    if (chance()) out["minimum"] = static_cast<int>(pick(300)) - 200;
    if (chance()) out["exclusiveMaximum"] = 101.5 + static_cast<double>(pick(1000));
    if (pick(4) == 0) out["multipleOf"] = 1 + pick(9);
    return out;
  }
  Json array(int depth) {
    Json out{{"type", "array"}, {"items", make(depth - 1)}};
    if (chance()) out["prefixItems"] = Json::array({make(depth - 1)});
    const std::size_t least = pick(3);
    if (chance()) out["minItems"] = least;
    out["maxItems"] = least + pick(3);
    return out;
  }
  Json object(int depth) {
    Json out{{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
    for (const std::string& name : names_) {
      if (chance()) continue;
      out["properties"][name] = make(depth - 1);
      if (chance()) out["required"].push_back(name);
    }
    const std::size_t rest = pick(3);
    if (rest == 0) out["additionalProperties"] = false;
    if (rest == 1) out["additionalProperties"] = make(0);
    return out;
  }
  // Combinations beside constraints.
  Json merged(int depth) {
    Json out = object(depth);
    if (chance()) {
      out["anyOf"] = Json::array({{{"required", Json::array({"extra"})}},
                                  {{"properties", {{"other", {{"type", "null"}}}}}}});
      out.erase("additionalProperties");
    } else {
      out["allOf"] = Json::array({{{"properties", {{"third", make(0)}}}}});
    }
    return out;
  }

  std::mt19937& random_;
  const std::vector<std::string> names_{"name", "na", "größe", "a\"b\\", ""};
};

}  // namespace

Json random_schema(std::mt19937& random) {
  Json out = Maker(random).make(3);
  out["$defs"]["node"] = {
      {"type", "object"},
      {"properties", {{"v", {{"type", "integer"}}}, {"next", {{"$ref", "#/$defs/node"}}}}},
      {"additionalProperties", false}};
  return out;
}

}  // namespace tandem::grammar_testing
