#include "serve/json_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace tandem {
namespace {

constexpr std::size_t kMaxQuotedBytes = 60;
constexpr std::size_t kMaxParserMessageBytes = 300;  // the parser quotes all it has read of a token

std::string quoted(const JsonValue& value) {
  // An array's or object's text is not worth spelling out, and may be huge.
  if (value.kind == JsonValue::Kind::kArray) return "an array";
  if (value.kind == JsonValue::Kind::kObject) return "an object";
  const bool shorten = value.text.size() > kMaxQuotedBytes;
  const std::string text = value.text.substr(0, kMaxQuotedBytes) + (shorten ? "…" : "");
  return value.kind == JsonValue::Kind::kString ? '"' + text + '"' : text;
}

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || read != end) return std::nullopt;
  return number;
}

// One pass without recursion or memory, before the parser builds anything.
Result<void> check_limits(std::string_view body, const JsonLimits& limits) {
  std::size_t depth = 0;
  std::size_t values = 1;
  bool in_string = false;
  for (std::size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == ']' || c == '}') depth -= depth > 0 ? 1 : 0;
    const bool opens = c == '[' || c == '{';
    if (opens && ++depth > limits.max_depth) {
      return invalid("the body nests deeper than {} levels", limits.max_depth);
    }
    if ((opens || c == ',') && ++values > limits.max_values) {
      return invalid("the body has more than {} values", limits.max_values);
    }
  }
  return {};
}

}  // namespace

Result<JsonValue> parse_json_object(std::string_view body, const JsonLimits& limits) {
  TRY(check_limits(body, limits));
  Result<JsonValue> value = parse_json(body);
  if (!value) {
    return invalid("the body is not JSON: {}",
                   value.error().message.substr(0, kMaxParserMessageBytes));
  }
  if (value->kind != JsonValue::Kind::kObject) {
    return invalid("the body must be a JSON object, got {}", quoted(*value));
  }
  return value;
}

tl::unexpected<Status> bad_field(const std::string& field, std::string_view problem) {
  return fail(Status{StatusCode::kInvalidArgument, fmt::format("{}: {}", field, problem), field});
}

tl::unexpected<Status> bad_field(const std::string& field, std::string_view expected,
                                 const JsonValue& got) {
  return bad_field(field, fmt::format("expected {}, got {}", expected, quoted(got)));
}

Result<float> read_float(const JsonValue& value, const std::string& field, NumberRange range) {
  const std::string expected =
      fmt::format("a number {} {} {} {}", range.above_low ? "above" : "from", range.low,
                  range.above_low ? "up to" : "to", range.high);
  if (value.kind != JsonValue::Kind::kNumber) return bad_field(field, expected, value);
  const auto number = static_cast<float>(number_of<double>(value.text).value_or(NAN));
  const bool inside = range.above_low ? number > range.low : number >= range.low;
  // Written so that NaN, which 64 bits make of nothing that is JSON, is refused.
  if (!inside || !(number <= range.high)) return bad_field(field, expected, value);
  return number;
}

Result<std::int64_t> read_integer(const JsonValue& value, const std::string& field,
                                  std::int64_t low, std::int64_t high) {
  const bool may_be =
      value.kind == JsonValue::Kind::kNumber || value.kind == JsonValue::Kind::kString;
  const auto number = may_be ? number_of<std::int64_t>(value.text) : std::nullopt;
  if (number && *number >= low && *number <= high) return *number;
  std::string expected = "an integer";
  if (high != std::numeric_limits<std::int64_t>::max()) {
    expected += fmt::format(" from {} to {}", low, high);
  } else if (low != std::numeric_limits<std::int64_t>::min()) {
    expected += fmt::format(" of at least {}", low);
  }
  return bad_field(field, expected, value);
}

Result<bool> read_bool(const JsonValue& value, const std::string& field) {
  if (value.kind != JsonValue::Kind::kBoolean) return bad_field(field, "true or false", value);
  return value.text == "true";
}

Result<std::string> read_string(const JsonValue& value, const std::string& field) {
  if (value.kind != JsonValue::Kind::kString) return bad_field(field, "a string", value);
  return value.text;
}

Result<std::string> required_string(const JsonValue& object, std::string_view key,
                                    const std::string& field) {
  const std::string at = fmt::format("{}.{}", field, key);
  const JsonValue* value = find_present(object, key);
  if (value == nullptr) return bad_field(at, "is required");
  return read_string(*value, at);
}

Result<void> expect_array(const JsonValue& value, const std::string& field) {
  if (value.kind != JsonValue::Kind::kArray) return bad_field(field, "an array", value);
  return {};
}

Result<void> expect_object(const JsonValue& value, const std::string& field) {
  if (value.kind != JsonValue::Kind::kObject) return bad_field(field, "an object", value);
  return {};
}

}  // namespace tandem
