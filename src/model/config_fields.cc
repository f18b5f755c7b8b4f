#include "model/config_fields.h"

#include "model/input.h"

namespace tandem {
namespace {

using nlohmann::json;

// A value as a message shows it: scalars in full, containers by kind.
std::string shown(const json* value) {
  if (value == nullptr) return "nothing";
  if (value->is_object()) return "an object";
  if (value->is_array()) return "a list";
  if (value->is_string()) return in_quotes(value->get_ref<const std::string&>());
  return value->dump();
}

bool in_range(const json& value, IntRange range) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(range.high)) {
    return false;
  }
  const auto number = value.get<std::int64_t>();
  return number >= range.low && number <= range.high && (!range.even || number % 2 == 0);
}

std::string described(IntRange range) {
  return fmt::format("{} integer from {} to {}", range.even ? "an even" : "an", range.low,
                     range.high);
}

std::string described(ConfigRange range) {
  return fmt::format("a number from {} to {}", range.low, range.high);
}

}  // namespace

Result<json> parse_json_object(std::string_view text, std::string_view source,
                               std::size_t max_bytes) {
  if (text.size() > max_bytes) {
    return invalid("{}: {} bytes; expected at most {}", source, text.size(), max_bytes);
  }
  try {
    json document = json::parse(text);
    if (!document.is_object()) {
      return invalid("{}: expected a JSON object, got {}", source, shown(&document));
    }
    return document;
  } catch (const json::parse_error& error) {
    return invalid("{}: not valid JSON at byte {}", source, error.byte);
  } catch (const json::exception&) {
    return invalid("{}: not valid JSON: a number is out of range", source);
  }
}

const json* ConfigFields::find(std::string_view name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigFields::has(std::string_view name) const { return find(name) != nullptr; }

void ConfigFields::wrong(std::string_view name, std::string_view what) {
  if (error_) return;
  error_ = Status{StatusCode::kInvalidArgument,
                  fmt::format("{}: field '{}{}': {}", source_, path_, name, what)};
}

void ConfigFields::expected(std::string_view name, std::string_view what) {
  wrong(name, fmt::format("expected {}, got {}", what, shown(find(name))));
}

std::optional<std::int64_t> ConfigFields::optional_integer(std::string_view name, IntRange range) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (in_range(*value, range)) return value->get<std::int64_t>();
  expected(name, described(range));
  return range.low;
}

std::int64_t ConfigFields::integer(std::string_view name, IntRange range) {
  const std::optional<std::int64_t> value = optional_integer(name, range);
  if (!value) expected(name, described(range));
  return value.value_or(range.low);
}

std::int64_t ConfigFields::integer_or(std::string_view name, IntRange range,
                                      std::int64_t fallback) {
  return optional_integer(name, range).value_or(fallback);
}

std::optional<float> ConfigFields::optional_number(std::string_view name, ConfigRange range) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const double number = value->get<double>();
    if (number >= range.low && number <= range.high) return static_cast<float>(number);
  }
  expected(name, described(range));
  return static_cast<float>(range.low);
}

float ConfigFields::number(std::string_view name, ConfigRange range) {
  const std::optional<float> value = optional_number(name, range);
  if (!value) expected(name, described(range));
  return value.value_or(static_cast<float>(range.low));
}

bool ConfigFields::boolean_or(std::string_view name, bool fallback) {
  const json* value = find(name);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  expected(name, "true or false");
  return fallback;
}

bool ConfigFields::boolean(std::string_view name) {
  if (!has(name)) expected(name, "true or false");
  return boolean_or(name, false);
}

std::string ConfigFields::string_or(std::string_view name, std::string_view fallback) {
  const json* value = find(name);
  if (value == nullptr) return std::string(fallback);
  if (value->is_string()) return value->get<std::string>();
  expected(name, "a string");
  return std::string(fallback);
}

std::string ConfigFields::string(std::string_view name) {
  if (!has(name)) expected(name, "a string");
  return string_or(name, "");
}

std::vector<std::int64_t> ConfigFields::integers(std::string_view name, IntRange range) {
  const json* value = find(name);
  if (value == nullptr || !value->is_array()) {
    expected(name, "a list of integers");
    return {};
  }
  std::vector<std::int64_t> numbers;
  for (const json& item : *value) {
    if (!in_range(item, range)) {
      wrong(name, fmt::format("expected {} in the list, got {}", described(range), shown(&item)));
      return {};
    }
    numbers.push_back(item.get<std::int64_t>());
  }
  return numbers;
}

const json& ConfigFields::object(std::string_view name) {
  static const json empty = json::object();
  const json* value = find(name);
  if (value != nullptr && value->is_object()) return *value;
  expected(name, "an object");
  return empty;
}

}  // namespace tandem
