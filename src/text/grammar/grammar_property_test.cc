// What must hold of every grammar: masks agree with tokens tried one by one, generated text is
// valid.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "text/grammar/grammar_test_support.h"
#include "text/grammar/matcher.h"
#include "text/grammar/random_schema.h"
#include "text/grammar/random_walk.h"
#include "text/grammar/schema_validator.h"
#include "text/test_support.h"

namespace tandem {
namespace {

using grammar::has_bit;
using grammar_testing::byte_vocabulary;
using grammar_testing::random_schema;
using grammar_testing::random_walk;

constexpr TokenId kStop = 4066;  // of the demo model

TEST(GrammarProperty, text_of_random_tokens_is_valid_under_random_schemas) {
  const auto vocabulary = GrammarVocabulary::create(demo_tokenizer(), std::vector<TokenId>{kStop});
  std::mt19937 random(20261201);
  int texts = 0, cut_off = 0, dead_ends = 0;
  for (int i = 0; texts < 500 && i < 1000; ++i) {
    const auto schema = random_schema(random);
    const auto grammar = Grammar::json_schema(schema.dump(), vocabulary);
    if (!grammar) {
      const std::string& message = grammar.error().message;
      ASSERT_TRUE(message == "no text can match" || message.ends_with("\"enum\" or \"const\""))
          << message << " in " << schema.dump();
      continue;
    }
    for (int n = 0; n < 3; ++n) {
      GrammarMatcher matcher(*grammar);
      const auto text = random_walk(matcher, *vocabulary, random, 30, &dead_ends);
      if (!text) {
        ++cut_off;
        continue;
      }
      ++texts;
      ASSERT_TRUE(matcher.is_finished());
      const auto value = nlohmann::json::parse(*text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << *text << "\n" << schema.dump();
      const nlohmann::json rules = nlohmann::json::parse(schema.dump());
      ASSERT_EQ(grammar_testing::violation(value, rules, rules), "") << *text << "\n"
                                                                     << schema.dump();
    }
  }
  EXPECT_GE(texts, 500);
  EXPECT_LE(cut_off, texts / 20);
  EXPECT_EQ(dead_ends, 0);
}

// Tokens of one to four bytes, most of them pieces of JSON.
std::vector<std::string> random_tokens(std::mt19937& random) {
  static const std::string kPieces[] = {
      "\"", "{",  "}", "[",  "]", ",",    ":", " ",   "a",  "b",  "1", "0",    "-",    ".",
      "e",  "\\", "u", "d8", "é", "\xC3", "n", "ull", "tr", "ue", "x", "name", "\xF0", "\n"};
  std::vector<std::string> out;
  for (std::size_t i = 0; i < 150; ++i) {
    std::string token;
    for (std::size_t n = 1 + random() % 4; n > 0; --n)
      token += kPieces[random() % std::size(kPieces)];
    out.push_back(std::move(token));
  }
  for (int byte = 0; byte < 128; ++byte) out.emplace_back(1, static_cast<char>(byte));
  return out;
}

// Whether the token may follow, found byte by byte in the grammar of single bytes.
bool may_follow(GrammarMatcher bytes, std::string_view token) {
  return std::all_of(token.begin(), token.end(),
                     [&](char c) { return bytes.accept(static_cast<unsigned char>(c)); });
}

TEST(GrammarProperty, a_mask_holds_exactly_the_tokens_that_may_follow) {
  std::mt19937 random(7);
  int masks = 0;
  for (int round = 0; round < 60; ++round) {
    const auto tokens = random_tokens(random);
    std::vector<std::string_view> views(tokens.begin(), tokens.end());
    views.emplace_back();  // special, not a stop id
    views.emplace_back();
    const auto stop = static_cast<TokenId>(views.size() - 1);
    const auto vocabulary = GrammarVocabulary::create(views, std::vector<TokenId>{stop});
    const std::string schema = random_schema(random).dump();
    const auto grammar = Grammar::json_schema(schema, vocabulary);
    if (!grammar) continue;
    GrammarMatcher matcher(*grammar);
    GrammarMatcher bytes(*Grammar::json_schema(schema, byte_vocabulary()));
    std::vector<std::uint64_t> mask(matcher.mask_words());
    for (int step = 0; step < 25; ++step) {
      matcher.fill_mask(mask);
      std::vector<TokenId> allowed;
      for (TokenId id = 0; id <= stop; ++id) {
        const bool expected = id == stop
                                  ? bytes.can_stop()
                                  : !views[static_cast<std::size_t>(id)].empty() &&
                                        may_follow(bytes, views[static_cast<std::size_t>(id)]);
        ASSERT_EQ(has_bit(mask, id), expected) << id << " in step " << step << " of " << schema;
        GrammarMatcher copy = matcher;
        ASSERT_EQ(copy.accept(id), expected);
        if (expected && id != stop) allowed.push_back(id);
      }
      ++masks;
      if (allowed.empty()) break;
      const TokenId chosen = allowed[random() % allowed.size()];
      ASSERT_TRUE(matcher.accept(chosen));
      for (const char c : views[static_cast<std::size_t>(chosen)]) {
        ASSERT_TRUE(bytes.accept(static_cast<unsigned char>(c)));
      }
    }
  }
  EXPECT_GT(masks, 300);
}

TEST(GrammarProperty, rolling_back_restores_the_mask) {
  const auto vocabulary = GrammarVocabulary::create(demo_tokenizer(), std::vector<TokenId>{kStop});
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    const auto grammar = Grammar::json_schema(random_schema(random).dump(), vocabulary);
    if (!grammar) continue;
    GrammarMatcher matcher(*grammar);
    std::vector<std::vector<std::uint64_t>> masks;
    while (masks.size() < 40 && !matcher.is_finished()) {
      masks.emplace_back(matcher.mask_words());
      matcher.fill_mask(masks.back());
      std::vector<TokenId> allowed;
      for (TokenId id = 0; static_cast<std::size_t>(id) < vocabulary->size(); ++id) {
        if (has_bit(masks.back(), id)) allowed.push_back(id);
      }
      ASSERT_TRUE(matcher.accept(allowed[random() % allowed.size()]));
    }
    std::vector<std::uint64_t> mask(matcher.mask_words());
    for (std::size_t left = masks.size(); left > 0;) {
      const std::size_t back = 1 + random() % left;
      matcher.rollback(back);
      left -= back;
      matcher.fill_mask(mask);
      ASSERT_EQ(mask, masks[left]);
    }
  }
}

std::string random_pattern(std::mt19937& random, int depth) {
  const auto inner = [&] { return random_pattern(random, depth - 1); };
  switch (random() % (depth > 0 ? 8 : 3)) {
    case 0:
      return "a";
    case 1:
      return "b";
    case 2:
      return random() % 2 ? "[^a]" : ".";
    case 3:
      return "(" + inner() + "|" + inner() + ")";
    case 4:
      return "(" + inner() + ")*";
    case 5:
      return "(" + inner() + "){1,2}";
    case 6:
      return "(" + inner() + ")?";
    default:
      return inner() + inner();
  }
}

TEST(GrammarProperty, regular_expressions_agree_with_the_standard_library) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const std::string pattern = random_pattern(random, 4);
    const auto grammar = Grammar::regex(pattern, byte_vocabulary());
    ASSERT_TRUE(grammar) << pattern;
    for (int n = 0; n < 30; ++n) {
      std::string text;
      for (std::size_t length = random() % 8; length > 0; --length) text += "abc"[random() % 3];
      ASSERT_EQ(grammar_testing::matches(*grammar, text),
                std::regex_match(text, std::regex(pattern)))
          << pattern << " on " << text;
    }
  }
}

}  // namespace
}  // namespace tandem
