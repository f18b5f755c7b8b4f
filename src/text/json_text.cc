#include "text/json_text.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "text/utf8.h"

namespace tandem {
namespace {

constexpr std::size_t kMaxDepth = 256;

// repr(float): the shortest digits that read back equal; exponents from 1e16 up and below 1e-4.
std::string python_float(double value) {
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  std::string out;
  if (text.front() == '-') {
    out = "-";
    text.remove_prefix(1);
  }
  const std::size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + 1 + (text[e + 1] == '+' ? 1 : 0), end, exponent);
  std::string digits(text.substr(0, 1));
  if (e > 1) digits += text.substr(2, e - 2);
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (digits.size() > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

// Builds a JsonValue from nlohmann's events; these carry the spelling of numbers, its tree does
// not.
class Builder {
 public:
  JsonValue take() { return std::move(root_); }
  const std::string& error() const { return error_; }

  bool null() { return add({JsonValue::Kind::kNull, "null", {}, {}}); }
  bool boolean(bool value) {
    return add({JsonValue::Kind::kBoolean, value ? "true" : "false", {}, {}});
  }
  bool number_integer(std::int64_t value) { return number(fmt::format("{}", value)); }
  bool number_unsigned(std::uint64_t value) { return number(fmt::format("{}", value)); }
  bool number_float(double value, const std::string& spelt) {
    // An integer that 64 bits cannot hold arrives here, too.
    const bool integer = spelt.find_first_of(".eE") == std::string::npos;
    return number(integer ? spelt : python_float(value));
  }
  bool string(std::string& value) {
    return add({JsonValue::Kind::kString, std::move(value), {}, {}});
  }
  bool binary(std::vector<std::uint8_t>&) { return false; }
  bool start_object(std::size_t) { return open(JsonValue::Kind::kObject); }
  bool start_array(std::size_t) { return open(JsonValue::Kind::kArray); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& key) {
    key_ = std::move(key);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..." without the code
    const std::string_view what = error.what();
    const std::size_t code_end = what.find("] ");
    error_ = what.substr(code_end == std::string_view::npos ? 0 : code_end + 2);
    return false;
  }

 private:
  struct Open {
    JsonValue value;
    std::string key;  // of this value in its parent
    std::unordered_map<std::string, std::size_t> places;
  };

  bool number(std::string spelt) {
    return add({JsonValue::Kind::kNumber, std::move(spelt), {}, {}});
  }

  bool open(JsonValue::Kind kind) {
    if (open_.size() == kMaxDepth) {
      error_ = fmt::format("nested deeper than {}", kMaxDepth);
      return false;
    }
    open_.push_back({{kind, {}, {}, {}}, std::exchange(key_, {}), {}});
    return true;
  }

  bool close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    key_ = std::move(done.key);
    return add(std::move(done.value));
  }

  bool add(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Open& parent = open_.back();
    if (parent.value.kind == JsonValue::Kind::kObject) {
      const auto [place, is_new] = parent.places.emplace(key_, parent.value.items.size());
      if (!is_new) {
        parent.value.items[place->second] = std::move(value);
        return true;
      }
      parent.value.keys.push_back(std::exchange(key_, {}));
    }
    parent.value.items.push_back(std::move(value));
    return true;
  }

  JsonValue root_;
  std::vector<Open> open_;
  std::string key_;
  std::string error_;
};

void append_json(const JsonValue& value, JsonStyle style, std::string* out) {
  const bool spaced = style == JsonStyle::kSpaced;
  switch (value.kind) {
    case JsonValue::Kind::kNull:
    case JsonValue::Kind::kBoolean:
    case JsonValue::Kind::kNumber:
      *out += value.text;
      return;
    case JsonValue::Kind::kString:
      *out += '"' + escape_json(value.text) + '"';
      return;
    case JsonValue::Kind::kArray:
    case JsonValue::Kind::kObject:
      break;
  }
  const bool is_object = value.kind == JsonValue::Kind::kObject;
  std::vector<std::size_t> order(value.items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (is_object && !spaced) {
    // Python sorts by code point, which for UTF-8 is the order of the bytes.
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return value.keys[a] < value.keys[b]; });
  }
  *out += is_object ? '{' : '[';
  for (std::size_t n = 0; n < order.size(); ++n) {
    if (n > 0) *out += spaced ? ", " : ",";
    if (is_object) *out += '"' + escape_json(value.keys[order[n]]) + (spaced ? "\": " : "\":");
    append_json(value.items[order[n]], style, out);
  }
  *out += is_object ? '}' : ']';
}

}  // namespace

Result<JsonValue> parse_json(std::string_view text) {
  Builder builder;
  bool ok = false;
  std::string error;
  try {
    ok = nlohmann::json::sax_parse(text, &builder);
    error = builder.error();
  } catch (const nlohmann::json::exception& exception) {
    error = exception.what();
  }
  // The parser quotes what it has read, up to the middle of a character.
  if (!ok) return invalid("{}", repair_utf8(error));
  return builder.take();
}

std::string to_json(const JsonValue& value, JsonStyle style) {
  std::string out;
  append_json(value, style, &out);
  return out;
}

std::string escape_json(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  return out;
}

const JsonValue* find_member(const JsonValue& object, std::string_view key) {
  const auto found = std::find(object.keys.begin(), object.keys.end(), key);
  return found == object.keys.end()
             ? nullptr
             : &object.items[static_cast<std::size_t>(found - object.keys.begin())];
}

bool is_null(const JsonValue& value) { return value.kind == JsonValue::Kind::kNull; }

const JsonValue* find_present(const JsonValue& object, std::string_view key) {
  const JsonValue* value = find_member(object, key);
  return value == nullptr || is_null(*value) ? nullptr : value;
}

}  // namespace tandem
