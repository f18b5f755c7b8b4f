#include "text/grammar/grammar.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/grammar_test_support.h"
#include "text/grammar/matcher.h"

namespace tandem {
namespace {

using grammar_testing::byte_vocabulary;
using grammar_testing::matches;

Grammar::Pointer schema(std::string_view text) {
  auto out = Grammar::json_schema(text, byte_vocabulary());
  EXPECT_TRUE(out.has_value()) << text << ": " << out.error().message;
  return out ? *out : nullptr;
}
Grammar::Pointer regex(std::string_view text) {
  auto out = Grammar::regex(text, byte_vocabulary());
  EXPECT_TRUE(out.has_value()) << text << ": " << out.error().message;
  return out ? *out : nullptr;
}
Grammar::Pointer ebnf(std::string_view text) {
  auto out = Grammar::ebnf(text, byte_vocabulary());
  EXPECT_TRUE(out.has_value()) << text << ": " << out.error().message;
  return out ? *out : nullptr;
}

void expect(const Grammar::Pointer& grammar, const std::vector<std::string_view>& right,
            const std::vector<std::string_view>& wrong) {
  ASSERT_NE(grammar, nullptr);
  for (const std::string_view text : right) EXPECT_TRUE(matches(grammar, text)) << text;
  for (const std::string_view text : wrong) EXPECT_FALSE(matches(grammar, text)) << text;
}

TEST(Regex, matches_the_whole_text) {
  expect(regex("[a-c]+\\d?"), {"a", "abc", "cc7"}, {"", "d", "7", "a77", "a7a"});
  expect(regex("(foo|ba[rz]){2}"), {"foobar", "bazbaz"}, {"foo", "foofoofoo", "foobat"});
  expect(regex("^a.c$"), {"abc", "aéc", "a😊c"}, {"ac", "a\nc", "xabc"});
  expect(regex("[^a-z]"), {"A", "é", "\n", "😊"}, {"a", "", "AA"});
  expect(regex("a{2,3}?b*"), {"aa", "aaab", "aabbb"}, {"a", "aaaa", "b"});
  expect(regex("(?:x|(?<name>y))\\u00e9\\x41\\."), {"xéA.", "yéA."}, {"xéAx", "x"});
  expect(regex("(^a|b$)"), {"a", "b"}, {"", "ab"});
  expect(regex(""), {""}, {"a"});
}

TEST(Regex, refuses_what_it_cannot_do) {
  for (const char* pattern :
       {"[", "(", "a)", "a{2", "a{3,2}", "*a", "a**", "(?=a)", "(?<!a)b", "\\1", "\\bword",
        "\\p{L}", "[z-a]", "\\", "a$b", "x{99999999}", "\xFF", "[\\d-z]"}) {
    const auto out = Grammar::regex(pattern, byte_vocabulary());
    EXPECT_FALSE(out.has_value()) << pattern;
    if (!out) {
      EXPECT_EQ(out.error().code, StatusCode::kInvalidArgument);
    }
  }
}

TEST(Grammar, compiling_ends_at_its_limits) {
  const auto refused = [](const Result<Grammar::Pointer>& out) {
    return !out && out.error().message == "the grammar is too large to be compiled";
  };
  GrammarLimits limits{.steps = 200'000};
  const char* const exponential = "(a|b)*a(a|b){60}";
  EXPECT_TRUE(refused(Grammar::regex(exponential, byte_vocabulary(), limits)));
  limits = {.states = 100};
  const char* const long_text = R"({"type":"string","maxLength":5000})";
  EXPECT_TRUE(refused(Grammar::json_schema(long_text, byte_vocabulary(), limits)));
  EXPECT_TRUE(Grammar::json_schema(long_text, byte_vocabulary()));
  limits = {.source_bytes = 10};
  EXPECT_FALSE(Grammar::ebnf("root ::= \"a\"", byte_vocabulary(), limits));
}

TEST(Ebnf, rules_may_call_each_other_and_themselves) {
  expect(ebnf("root ::= item (\",\" item)*  # a list\nitem ::= [0-9]{1,2} | \"(\" root \")\""),
         {"1", "12,3", "((1),2)", "(1,(2,(3)))"}, {"", "123", "(1", "1,", "()"});
  expect(ebnf("root ::= \"a\" root \"b\" | \"\""), {"", "ab", "aaabbb"}, {"a", "aab", "abb", "ba"});
  expect(ebnf("value ::= \"\\\"\" . \"\\\"\"\nroot ::= value\n   | \"\\u00e9\\n\""),
         {"\"x\"", "\"é\"", "é\n"}, {"\"xy\"", "x"});
  expect(ebnf("root ::= (\"a\" | \"b\"?) \"c\""), {"ac", "bc", "c"}, {"a", "abc"});
}

TEST(Ebnf, refuses_with_line_and_column) {
  const auto place = [](std::string_view text) {
    const auto out = Grammar::ebnf(text, byte_vocabulary());
    EXPECT_FALSE(out.has_value()) << text;
    return out ? std::string() : out.error().field;
  };
  EXPECT_EQ(place("root ::= \"a\n"), "1:12");
  EXPECT_EQ(place("root ::= a\na ::= b"), "2:7");
  EXPECT_EQ(place("root ::= \"a\"\nroot ::= \"b\""), "2:1");
  EXPECT_EQ(place("this is nonsense"), "1:6");
  EXPECT_EQ(place(""), "1:1");
  EXPECT_EQ(place("root ::= [a"), "1:12");
  EXPECT_EQ(place("root ::= (\"a\""), "1:14");
  EXPECT_EQ(place("root ::= \"\\q\""), "1:13");
  EXPECT_EQ(place("root ::= \"a\" }"), "1:14");
}

TEST(Ebnf, refuses_left_recursion_and_rules_without_end) {
  const auto message = [](std::string_view text) {
    const auto out = Grammar::ebnf(text, byte_vocabulary());
    return out ? std::string() : out.error().message;
  };
  EXPECT_NE(message("root ::= root \"a\" | \"b\""), "");
  EXPECT_NE(message("root ::= a\na ::= \"x\"? b\nb ::= a \"y\" | \"z\""), "");
  EXPECT_NE(message("root ::= \"a\" root"), "");
  EXPECT_EQ(message("root ::= \"a\" root | \"b\""), "");
}

TEST(JsonSchema, scalars) {
  expect(schema(R"({"type":"string"})"), {R"("")", R"("aé😊")", R"("\n\u00e9\ud83d\ude0a\/")"},
         {"", "\"", "\"\n\"", R"("\x")", R"("\ud83d")", R"("\ud83dx")", "\"\xff\"", "1"});
  expect(schema(R"({"type":"integer"})"), {"0", "-7", "123456789012345678"},
         {"-0", "01", "1.0", "1e3", "1234567890123456789", "-"});
  expect(schema(R"({"type":"number"})"), {"0", "-0.5", "1e9", "2.5E-12"},
         {".5", "1.", "00", "1e", "1e999", "+1"});
  expect(schema(R"({"type":["boolean","null"]})"), {"true", "false", "null"}, {"tru", "0"});
  expect(schema(R"({"enum":["é\"",1,null,{"b":[1],"a":2}]})"),
         {R"("é\"")", "1", "null", R"({"a":2,"b":[1]})"}, {"2", R"("é")"});
  expect(schema(R"({"type":"integer","enum":[1,2.5,"x"]})"), {"1"}, {"2.5", "\"x\""});
  expect(schema(R"({"enum":[5,50,"a","abc",null],"maximum":10,"minLength":2})"),
         {"5", "\"abc\"", "null"}, {"50", "\"a\""});
  expect(schema(R"({"const":"a"})"), {"\"a\""}, {"\"b\"", "a"});
}

TEST(JsonSchema, integers_within_bounds) {
  for (const auto& [low, high] : {std::pair{-120, 1005}, {0, 0}, {-3, -2}, {7, 99}, {-99, 9}}) {
    const auto grammar = schema(
        fmt::format(R"({{"type":"integer","minimum":{},"exclusiveMaximum":{}}})", low, high + 1));
    for (int i = -1100; i <= 1100; ++i) {
      EXPECT_EQ(matches(grammar, fmt::format("{}", i)), i >= low && i <= high) << i;
    }
  }
  expect(schema(R"({"type":"integer","minimum":-1000000})"),
         {"-1000000", "-999999", "0", "55555555"}, {"-1000001", "-9999999"});
  expect(schema(R"({"type":"integer","maximum":-5})"), {"-5", "-123456"}, {"-4", "0", "5"});
  expect(schema(R"({"type":"integer","minimum":0.5,"maximum":2.5})"), {"1", "2"}, {"0", "3"});
  expect(schema(R"({"type":"integer","multipleOf":7,"minimum":-20})"), {"-14", "0", "7", "700"},
         {"-21", "1", "13", "701"});
}

TEST(JsonSchema, numbers_within_bounds) {
  expect(schema(R"({"type":"number","minimum":-10.5111,"maximum":20.3333})"),
         {"-10.5111", "-10.51", "-10", "0", "0.5", "-0.25", "20.333", "20.3333", "20.300000"},
         {"-10.5112", "-10.6", "20.3334", "20.34", "21", "1e1"});
  expect(schema(R"({"type":"number","exclusiveMinimum":0,"maximum":1})"),
         {"0.1", "0.000001", "1", "1.0", "0.999999"}, {"0", "0.0", "-0.1", "1.1"});
  expect(schema(R"({"type":"number","minimum":0,"multipleOf":0.01})"), {"0", "1.5", "2.25"},
         {"2.255", "-1"});
}

TEST(JsonSchema, strings_with_lengths_and_patterns) {
  expect(schema(R"({"type":"string","minLength":2,"maxLength":3})"),
         {R"("ab")", R"("é😊a")", R"("\n\ud83d\ude0a")"}, {R"("a")", R"("abcd")"});
  expect(schema(R"({"type":"string","pattern":"^[a-z\"]+$"})"), {R"("ab\"")"},
         {R"("")", R"("A")", R"("a"")"});
  expect(schema(R"({"type":"string","pattern":"b.d"})"), {R"("abcde")", R"("béd")"},
         {R"("bd")", R"("abc")"});
  expect(schema(R"({"type":"string","pattern":"^a|z$","maxLength":3})"),
         {R"("a")", R"("abc")", R"("xyz")", R"("z")"}, {R"("b")", R"("abcd")", R"("za")"});
  expect(schema(R"({"type":"string","format":"date"})"), {R"("2024-02-28")", R"("1999-12-31")"},
         {R"("2024-13-01")", R"("2024-04-31")", R"("2024-1-1")"});
  const auto long_text = schema(R"({"type":"string","minLength":1000,"maxLength":1300})");
  for (const std::size_t length :
       {999, 1000, 1001, 1127, 1128, 1129, 1255, 1256, 1257, 1300, 1301}) {
    const bool fits = length >= 1000 && length <= 1300;
    EXPECT_EQ(matches(long_text, "\"" + std::string(length, 'x') + "\""), fits) << length;
  }
}

TEST(JsonSchema, objects_in_the_order_of_their_properties) {
  const auto grammar = schema(
      R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"},
          "c":{"type":"boolean"}},"required":["b"],"additionalProperties":false})");
  expect(grammar, {R"({"b":null})", R"({"a":1,"b":null})", R"({ "a": 1, "b": null, "c": true })"},
         {"{}", R"({"b":null,"a":1})", R"({"a":1})", R"({"b":null,})", R"({"b":null,"d":1})",
          R"({"b":null,"b":null})", "{  \"b\":null}", "{\n\"b\":null}"});
  const auto open = schema(R"({"properties":{"é\n":{"type":"integer"}},
                               "additionalProperties":{"type":"string"}})");
  expect(
      open,
      {"{}", "{ }", R"({"é\n":1})", R"({"é\n":1,"x":"y"})", R"({"x":"y","z":"w"})", R"({"é":""})"},
      {R"({"x":1})", R"({"é\n":"s"})", R"({"x":"y","é\n":1})", R"({"x":"y",})",
       R"({"\u0078":""})"});
  expect(schema(R"({"type":"object","required":["k"]})"), {R"({"k":[{"a":1}]})"},
         {"{}", R"({"j":1})"});
}

TEST(JsonSchema, arrays) {
  expect(schema(R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})"),
         {"[1]", "[1,2]", "[ 1, 2, 3 ]"}, {"[]", "[1,2,3,4]", "[1,]", "[,1]"});
  expect(
      schema(
          R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"null"}],"items":false})"),
      {"[]", "[1]", "[1,null]"}, {"[null]", "[1,null,1]"});
  expect(
      schema(R"({"items":[{"type":"integer"}],"additionalItems":{"type":"boolean"},"minItems":2})"),
      {"[1,true]", "[1,true,false]"}, {"[1]", "[1,1]", "[]"});
  expect(schema(R"({"type":"array","maxItems":0})"), {"[]", "[ ]"}, {"[1]"});
  expect(schema(R"({"type":"array","items":false})"), {"[]"}, {"[1]"});
}

TEST(JsonSchema, references_and_recursion) {
  const auto tree = schema(
      R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{
          "v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/node"}}},
          "required":["v"],"additionalProperties":false}}})");
  expect(tree, {R"({"v":1})", R"({"v":1,"kids":[{"v":2,"kids":[]},{"v":3}]})"},
         {R"({"v":1,"kids":[{}]})", R"({"v":1,"kids":[{"v":2})"});
  // A property that cannot end is left out.
  expect(schema(R"({"properties":{"n":{"$ref":"#/definitions/x"}},"additionalProperties":false,
      "definitions":{"x":{"type":"object","properties":{"n":{"$ref":"#/definitions/x"}},
      "required":["n"]}}})"),
         {"{}"}, {R"({"n":)", R"({"n":{}})"});
}

TEST(JsonSchema, combinations) {
  expect(schema(R"({"anyOf":[{"type":"string"},{"type":"integer"}]})"), {"\"a\"", "1"},
         {"1.5", "null"});
  expect(schema(R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},
      "additionalProperties":false,"anyOf":[{"required":["a"]},{"required":["b"]}]})"),
         {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":2})"}, {"{}"});
  expect(schema(R"({"allOf":[{"type":"integer","minimum":3},{"maximum":5,"type":"number"}]})"),
         {"3", "5"}, {"2", "6", "3.5"});
  expect(schema(R"({"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},
      {"properties":{"a":{"minimum":4},"b":{"const":1}},"additionalProperties":false}]})"),
         {R"({"a":4})", R"({"a":9,"b":1})"}, {R"({"a":3})", R"({"a":4,"c":1})"});
  expect(schema(R"({"oneOf":[{"const":1},{"const":2}]})"), {"1", "2"}, {"3"});
}

TEST(JsonSchema, refuses_by_the_path_of_the_keyword) {
  const auto field = [](std::string_view text) {
    const auto out = Grammar::json_schema(text, byte_vocabulary());
    EXPECT_FALSE(out.has_value()) << text;
    if (!out) {
      EXPECT_TRUE(out.error().message.starts_with(out.error().field));
    }
    return out ? std::string("compiled") : out.error().field;
  };
  EXPECT_EQ(field(R"({"type":"strnig"})"), "#/type");
  EXPECT_EQ(field(R"({"properties":{"a/b":{"$ref":"#/nowhere"}}})"), "#/properties/a~1b/$ref");
  EXPECT_EQ(field(R"({"$ref":"other.json"})"), "#/$ref");
  EXPECT_EQ(field(R"({"properties":{"a":{"type":"string","pattern":"["}}})"),
            "#/properties/a/pattern");
  EXPECT_EQ(field(R"({"items":{"patternProperties":{}}})"), "#/items/patternProperties");
  EXPECT_EQ(field(R"({"not":{}})"), "#/not");
  EXPECT_EQ(field(R"({"type":"string","format":"moon-phase"})"), "#/format");
  EXPECT_EQ(field(R"({"minLength":-1})"), "#/minLength");
  EXPECT_EQ(field(R"({"minLength":99999999999})"), "#/minLength");
  EXPECT_EQ(field(R"({"maxLength":1,"minLength":2})"), "#/maxLength");
  EXPECT_EQ(field(R"({"anyOf":[{"type":"null"},{"type":4}]})"), "#/anyOf/1/type");
  EXPECT_EQ(field(R"({"type":"number","multipleOf":0.3})"), "#/multipleOf");
  EXPECT_EQ(field(R"({"uniqueItems":true})"), "#/uniqueItems");
  EXPECT_EQ(field(R"({"required":["a"],"additionalProperties":false})"), "#/required");
  EXPECT_EQ(field(R"({"enum":[]})"), "#/enum");
  EXPECT_EQ(field("[]"), "#");
  EXPECT_EQ(field("{"), "");
  EXPECT_EQ(field("false"), "");
  EXPECT_EQ(field(R"({"$ref":"#"})"), "");
  EXPECT_EQ(field(R"({"type":"string","$ref":"#"})"), "#/$ref");
  EXPECT_EQ(field(std::string(5 << 20, ' ')), "");
}

}  // namespace
}  // namespace tandem
