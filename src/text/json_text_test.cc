#include "text/json_text.h"

#include <gtest/gtest.h>

#include <string>

#include "text/utf8.h"

namespace tandem {
namespace {

std::string respell(std::string_view text, JsonStyle style = JsonStyle::kSpaced) {
  const auto value = parse_json(text);
  return value ? to_json(*value, style) : "error: " + value.error().message;
}

TEST(JsonText, numbers_are_spelt_as_python_spells_them) {
  const std::pair<const char*, const char*> cases[] = {
      {"1.0", "1.0"},
      {"1.50", "1.5"},
      {"-0.0", "-0.0"},
      {"-0", "0"},
      {"1e5", "100000.0"},
      {"1e15", "1000000000000000.0"},
      {"1e16", "1e+16"},
      {"1.25E+22", "1.25e+22"},
      {"0.0001", "0.0001"},
      {"0.00001", "1e-05"},
      {"1.5e-7", "1.5e-07"},
      {"123456789.123", "123456789.123"},
      {"0.1", "0.1"},
      {"1e-100", "1e-100"},
      {"9007199254740993.0", "9007199254740992.0"},
      {"18446744073709551615", "18446744073709551615"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"123456789012345678901234567890", "123456789012345678901234567890"}};
  for (const auto& [text, python] : cases) EXPECT_EQ(respell(text), python);
}

TEST(JsonText, spaced_keeps_order_and_characters) {
  EXPECT_EQ(respell(R"({"b":[1,"é\u0041"],"a":{},"c":[],"d":null,"e":true})"),
            R"({"b": [1, "éA"], "a": {}, "c": [], "d": null, "e": true})");
  EXPECT_EQ(respell(R"("\u0001\n\t\"\\\/\u007f\ud83e\udee0")"),
            "\"\\u0001\\n\\t\\\"\\\\/\x7f\U0001FAE0\"");
}

TEST(JsonText, compact_sorts_keys_at_every_level) {
  EXPECT_EQ(
      respell(R"({"b": [{"z": 1, "y": 2}], "a": 0, "é": 1, "Z": 2})", JsonStyle::kCompactSorted),
      R"({"Z":2,"a":0,"b":[{"y":2,"z":1}],"é":1})");
}

TEST(JsonText, a_repeated_key_keeps_its_first_place_and_last_value) {
  EXPECT_EQ(respell(R"({"a":1,"b":2,"a":{"c":3}})"), R"({"a": {"c": 3}, "b": 2})");
}

TEST(JsonText, refuses_what_is_not_json_and_what_nests_too_deep) {
  EXPECT_FALSE(parse_json(""));
  EXPECT_FALSE(parse_json("{\"a\": 1"));
  EXPECT_FALSE(parse_json("1 2"));
  EXPECT_FALSE(parse_json("\"\xFF\""));
  EXPECT_FALSE(parse_json("1e999"));
  EXPECT_TRUE(parse_json(std::string(256, '[') + std::string(256, ']')));
  EXPECT_EQ(respell(std::string(100'000, '[')), "error: nested deeper than 256");
}

TEST(JsonText, errors_are_whole_characters) {
  const auto parsed = parse_json("{\"a\"é");
  ASSERT_FALSE(parsed);
  EXPECT_TRUE(is_valid_utf8(parsed.error().message)) << parsed.error().message;
}

}  // namespace
}  // namespace tandem
