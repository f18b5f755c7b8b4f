// Reading fields of a JSON object with one-line errors; private to the readers of configurations.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem {

// Parses a document of at most `max_bytes` that must be an object.
Result<nlohmann::json> parse_json_object(std::string_view json, std::string_view source,
                                         std::size_t max_bytes);

// Ranges include both ends.
struct IntRange {
  std::int64_t low = 0;
  std::int64_t high = 0;
  bool even = false;
};
struct ConfigRange {
  double low = 0;
  double high = 0;
};

// The fields of one object. The first error sticks and later reads return harmless values (the low
// end of a range), so that a reader is a list of assignments with one check at its end. A null
// counts as absent. Borrows the object and the strings; `error` is shared by the readers of one
// document.
class ConfigFields {
 public:
  // `path` goes before field names in messages, e.g. "text_config.".
  ConfigFields(const nlohmann::json& object, std::string_view source, std::string_view path,
               std::optional<Status>& error)
      : object_(object), source_(source), path_(path), error_(error) {}

  bool has(std::string_view name) const;
  std::int64_t integer(std::string_view name, IntRange range);
  std::int64_t integer_or(std::string_view name, IntRange range, std::int64_t fallback);
  std::optional<std::int64_t> optional_integer(std::string_view name, IntRange range);
  float number(std::string_view name, ConfigRange range);
  std::optional<float> optional_number(std::string_view name, ConfigRange range);
  bool boolean(std::string_view name);
  bool boolean_or(std::string_view name, bool fallback);
  std::string string(std::string_view name);
  std::string string_or(std::string_view name, std::string_view fallback);
  std::vector<std::int64_t> integers(std::string_view name, IntRange range);
  // The object under `name`; an empty one with an error noted if there is none.
  const nlohmann::json& object(std::string_view name);

  // Notes "source: field 'path.name': expected ..., got ...".
  void expected(std::string_view name, std::string_view what);
  void wrong(std::string_view name, std::string_view what);

  const nlohmann::json& members() const { return object_; }

 private:
  const nlohmann::json* find(std::string_view name) const;

  const nlohmann::json& object_;
  std::string_view source_;
  std::string_view path_;
  std::optional<Status>& error_;
};

}  // namespace tandem
