#include "text/k3_arguments.h"

#include <utility>

#include "text/json_text.h"

namespace tandem {

std::string K3Arguments::open_argument(std::string_view key, std::string_view type) {
  std::string out = close_channel();
  if (key.empty()) return out;
  out += has_arguments_ ? ", \"" : "{\"";
  out += escape_json(repair_utf8(key)) + "\": ";
  has_arguments_ = true;
  channel_ = type.empty() || type == "string" ? Channel::kString : Channel::kTyped;
  if (channel_ == Channel::kString) out += '"';
  return out;
}

std::string K3Arguments::open_json() {
  std::string out = close_channel();
  channel_ = Channel::kJson;
  return out;
}

std::string K3Arguments::text(std::string_view bytes) {
  if (channel_ == Channel::kString) return escape_json(string_.feed(bytes));
  if (channel_ != Channel::kNone) value_ += bytes;
  return {};
}

std::string K3Arguments::close_channel() {
  const std::string value = repair_utf8(std::exchange(value_, {}));
  switch (std::exchange(channel_, Channel::kNone)) {
    case Channel::kNone:
      return {};
    case Channel::kString:
      return string_.flush() + '"';
    case Channel::kJson:
      json_ = value;
      return {};
    case Channel::kTyped:
      break;
  }
  const auto parsed = parse_json(value);
  return parsed ? to_json(*parsed, JsonStyle::kSpaced) : '"' + escape_json(value) + '"';
}

std::string K3Arguments::close() {
  const std::string out = close_channel();
  if (has_arguments_) return out + "}";
  if (!json_) return "{}";
  const auto parsed = parse_json(*json_);
  const bool is_object = parsed && parsed->kind == JsonValue::Kind::kObject;
  return is_object ? to_json(*parsed, JsonStyle::kSpaced) : *json_;
}

}  // namespace tandem
