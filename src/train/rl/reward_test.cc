// Equality of answers, where they stand in a text, and the rules of reward.
#include "train/rl/reward.h"

#include <gtest/gtest.h>

#include "support/cases.h"
#include "train/rl/math_answer.h"
#include "train/rl/rational.h"

namespace tandem::train {
namespace {

void expect_same(std::initializer_list<std::pair<const char*, const char*>> pairs) {
  for (const auto& [a, b] : pairs) {
    EXPECT_TRUE(same_answer(a, b)) << a << " | " << b;
    EXPECT_TRUE(same_answer(b, a)) << b << " | " << a;
  }
}

void expect_different(std::initializer_list<std::pair<const char*, const char*>> pairs) {
  for (const auto& [a, b] : pairs) {
    EXPECT_FALSE(same_answer(a, b)) << a << " | " << b;
    EXPECT_FALSE(same_answer(b, a)) << b << " | " << a;
  }
}

TEST(SameAnswer, strings_in_one_spelling) {
  expect_same({{"\\frac12", "\\frac{1}{2}"},
               {"\\dfrac{3}{4}", "\\tfrac{3}{4}"},
               {"\\frac1{72}", "\\frac{1}{72}"},
               {"\\sqrt3", "\\sqrt{3}"},
               {"2\\sqrt{2}", "2 \\sqrt2"},
               {"1/2", "0.5"},
               {"x=7", "7"},
               {"x = 7", "7"},
               {"\\text{even}", "even"},
               {"5\\text{ cm}", "5"},
               {"50\\%", "50"},
               {"\\$12", "12"},
               {"90^\\circ", "90"},
               {"90^{\\circ}", "90"},
               {"\\left(1,2\\right)", "(1, 2)"},
               {".75", "0.75"},
               {"x^2+1", "x^2 + 1"}});
  expect_different({{"\\sqrt3", "\\sqrt{2}"}, {"xyz=7", "7"}, {"even", "odd"}, {"x^2", "x^3"}});
}

TEST(SameAnswer, numbers_exactly) {
  expect_same({{"1,234,567", "1234567"},
               {"2.0", "2"},
               {"0.25", "1/4"},
               {"0.25", "\\frac{1}{4}"},
               {"-0.25", "-\\frac{1}{4}"},
               {"7 3/4", "31/4"},
               {"7\\frac{3}{4}", "7.75"},
               {"3 million", "3000000"},
               {"1.5 billion", "1500000000"},
               {"12 cm", "12"},
               {"12 inches^2", "12"},
               {"3 hours", "3"},
               {"-0", "0"},
               {"00012", "12"},
               {"123456789012345678901234567890.5", "246913578024691357802469135781/2"}});
  expect_different({{"12", "13"},
                    {"0.333", "1/3"},
                    {"2/4", "1/2"},  // unreduced
                    {"4/2", "2"},    // not written as a whole number
                    {"1/0", "0"},
                    {"-1", "1"},
                    {"1,23", "123"},
                    {"12a", "12"},
                    {"", ""},
                    {"1e9999999", "1"},
                    {"123456789012345678901234567890", "123456789012345678901234567891"}});
}

TEST(SameAnswer, tuples_intervals_and_lists) {
  expect_same({{"(1, 0.5)", "(1,1/2)"},
               {"[0,1)", "[0, 1)"},
               {"1, 2", "1,2"},
               {"1 and 2", "1, 2"},
               {"1 or 2", "1,2"},
               {"(\\frac{1}{2}, x)", "(0.5, x)"}});
  expect_different({{"[0,1)", "(0,1)"},
                    {"(1,2)", "(2,1)"},
                    {"(1,2)", "(1,2,3)"},
                    {"(1,2)", "1,2"},
                    {"(1,2)", "(1,3)"}});
}

// Nothing that a model writes may stop the run.
TEST(SameAnswer, strange_input_is_only_unequal) {
  const std::string braces(5000, '{'), digits(5000, '9');
  for (const std::string& text :
       {std::string("\\frac"), std::string("\\frac1"), std::string("\\sqrt"), std::string("="),
        std::string("\\boxed{"), std::string("\xff\xfe\x00", 3), braces, digits,
        digits + "/" + digits, std::string("\\text{"), std::string(","), std::string("()"),
        std::string("1/"), std::string("/1"), std::string("."), std::string("-"),
        std::string("e5")}) {
    EXPECT_FALSE(same_answer(text, "42")) << text.substr(0, 20);
    EXPECT_FALSE(same_answer("42", text)) << text.substr(0, 20);
  }
  EXPECT_TRUE(same_answer(digits, digits));
}

TEST(WrittenNumberTest, forms) {
  using Form = WrittenNumber::Form;
  EXPECT_EQ(parse_number("12.0")->form, Form::kInteger);
  EXPECT_EQ(parse_number("3/4")->form, Form::kFraction);
  EXPECT_EQ(parse_number("0.75")->form, Form::kOther);
  EXPECT_EQ(parse_number("-7 3/4")->numerator, "31");
  EXPECT_TRUE(parse_number("-7 3/4")->negative);
  EXPECT_TRUE(equal_values(*parse_number("1.5e3"), *parse_number("1500")));
  EXPECT_TRUE(equal_values(*parse_number("15e-1"), *parse_number("3/2")));
  for (const char* wrong :
       {"", "+", "1/0", "1//2", "1 2", "1 2/", "1.2.3", "1e", "1e1000000", "0x1"}) {
    EXPECT_FALSE(parse_number(wrong)) << wrong;
  }
}

TEST(Boxed, the_last_one_with_matched_braces) {
  EXPECT_EQ(last_boxed("a \\boxed{1} b \\boxed{\\frac{1}{2}} c"), "\\frac{1}{2}");
  EXPECT_EQ(last_boxed("\\boxed{1} and \\boxed{2"), "1") << "the last is not closed";
  EXPECT_EQ(last_boxed("\\fbox{3}"), "3");
  EXPECT_EQ(last_boxed("\\fbox{3} \\boxed{4}"), "4");
  EXPECT_EQ(last_boxed("\\boxed{}"), "");
  EXPECT_FALSE(last_boxed("boxed{1}"));
}

double score(const char* rule, std::string_view answer, std::string_view label) {
  const auto reward = Reward::create(rule);
  EXPECT_TRUE(reward) << reward.error().message;
  return reward->score(answer, label);
}

TEST(Rewards, math_and_deepscaler) {
  EXPECT_EQ(score("math", "so \\boxed{0.5}", "1/2"), 1);
  EXPECT_EQ(score("math", "so \\boxed{0.6}", "1/2"), 0);
  EXPECT_EQ(score("math", "so 1/2", "1/2"), 0);
  EXPECT_EQ(score("deepscaler", "<think>\\boxed{1}</think> \\boxed{2}", "2"), 1);
  EXPECT_EQ(score("deepscaler", "<think>\\boxed{2}</think> none", "2"), 0);
  EXPECT_EQ(score("deepscaler", "\\boxed{2}", "2"), 0) << "no reasoning ended";
  EXPECT_EQ(score("deepscaler", "x<|open|>response<|sep|>\\boxed{2}", "2"), 1);
  EXPECT_EQ(score("deepscaler", "x###Response \\boxed{2}", "2"), 1);
}

TEST(Rewards, dapo_is_plus_or_minus_one) {
  EXPECT_EQ(score("dapo", "Answer: 1\nso\nAnswer: 34 \nbye", "34"), 1);
  EXPECT_EQ(score("dapo", "Answer: 34\nAnswer: 35", "34"), -1);
  EXPECT_EQ(score("dapo", "34", "34"), -1);
  EXPECT_EQ(score("dapo", "Answer: 34" + std::string(300, ' '), "34"), -1) << "too far back";
}

TEST(Rewards, exact_regex_and_boxed) {
  EXPECT_EQ(score("exact", " yes\n", "yes"), 1);
  EXPECT_EQ(score("exact", "yes!", "yes"), 0);
  EXPECT_EQ(score("regex:^[a-c]+$", "abc", ""), 1);
  EXPECT_EQ(score("regex:^[a-c]+$", "abd", ""), 0);
  EXPECT_EQ(score("regex:is (\\d+)", "it is 42.", "42"), 1);
  EXPECT_EQ(score("regex:is (\\d+)", "it is 43.", "42"), 0);
  EXPECT_EQ(score("regex:is( \\d+)?$", "it is", "42"), 0);
  EXPECT_EQ(score("boxed_exact", "\\boxed{ a }", "a"), 1);
  EXPECT_EQ(score("boxed_exact", "a", "a"), 0);
  EXPECT_EQ(score("regex:^(a+)+$", std::string(64, 'a') + "b", ""), 0) << "would search for ages";
  EXPECT_EQ(score("regex:b", "\xff\xfe b", ""), 1) << "not UTF-8";
}

TEST(Rewards, a_wrong_rule_is_named) {
  const auto unknown = Reward::create("maths");
  ASSERT_FALSE(unknown);
  expect_one_line(unknown.error().message, {"maths", "deepscaler"});
  const auto pattern = Reward::create("regex:(");
  ASSERT_FALSE(pattern);
  expect_one_line(pattern.error().message, {"regex:(", "byte 1"});
}

}  // namespace
}  // namespace tandem::train
