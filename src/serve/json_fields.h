// Reading a request's JSON: limits before anything is built, then typed fields whose errors name
// them.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/status.h"
#include "text/json_text.h"

namespace tandem {

struct JsonLimits {
  std::size_t max_depth = 200;  // less than what parse_json takes
  // A value of two bytes becomes a JsonValue of a hundred.
  std::size_t max_values = 2'000'000;
};

// A body that must be one JSON object. NaN, Infinity, invalid UTF-8 and lone surrogates are no
// JSON.
Result<JsonValue> parse_json_object(std::string_view body, const JsonLimits& limits = {});

// Every error carries `field`, says what was expected and quotes the value, shortened.
tl::unexpected<Status> bad_field(const std::string& field, std::string_view expected,
                                 const JsonValue& got);
// The same where there is no value to quote.
tl::unexpected<Status> bad_field(const std::string& field, std::string_view problem);

struct NumberRange {
  double low = 0, high = 0;
  bool above_low = false;  // `low` itself is out
};
// Rounded to float before it is compared: what is too small for one is 0.
Result<float> read_float(const JsonValue& value, const std::string& field, NumberRange range);

// Also takes a string that spells an integer. 1.0 is none.
Result<std::int64_t> read_integer(const JsonValue& value, const std::string& field,
                                  std::int64_t low = std::numeric_limits<std::int64_t>::min(),
                                  std::int64_t high = std::numeric_limits<std::int64_t>::max());
Result<bool> read_bool(const JsonValue& value, const std::string& field);
Result<std::string> read_string(const JsonValue& value, const std::string& field);
// The text of member `key` of the object at `field`; one that is left out is an error.
Result<std::string> required_string(const JsonValue& object, std::string_view key,
                                    const std::string& field);
Result<void> expect_array(const JsonValue& value, const std::string& field);
Result<void> expect_object(const JsonValue& value, const std::string& field);

}  // namespace tandem
