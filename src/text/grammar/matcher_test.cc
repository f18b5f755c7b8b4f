#include "text/grammar/matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "text/grammar/grammar_test_support.h"
#include "text/grammar/state_mask.h"

namespace tandem {
namespace {

using grammar_testing::byte_vocabulary;

constexpr TokenId kStop = 256;  // of byte_vocabulary()

Grammar::Pointer regex(const char* pattern) { return *Grammar::regex(pattern, byte_vocabulary()); }

std::vector<TokenId> allowed(GrammarMatcher* matcher) {
  std::vector<std::uint64_t> mask(matcher->mask_words(), ~std::uint64_t{0});
  matcher->fill_mask(mask);
  std::vector<TokenId> out;
  for (TokenId id = 0; id <= kStop; ++id) {
    if (grammar::has_bit(mask, id)) out.push_back(id);
  }
  return out;
}

TEST(GrammarMatcher, a_stop_id_follows_only_a_complete_text) {
  GrammarMatcher matcher(regex("ab?"));
  EXPECT_FALSE(matcher.can_stop());
  EXPECT_FALSE(matcher.accept(kStop));
  EXPECT_EQ(allowed(&matcher), (std::vector<TokenId>{'a'}));
  EXPECT_TRUE(matcher.accept('a'));
  EXPECT_TRUE(matcher.can_stop());
  EXPECT_EQ(allowed(&matcher), (std::vector<TokenId>{'b', kStop}));
  EXPECT_TRUE(matcher.accept(kStop));
  EXPECT_TRUE(matcher.is_finished());
  EXPECT_FALSE(matcher.can_stop());
  EXPECT_FALSE(matcher.accept('b'));
  EXPECT_EQ(allowed(&matcher), std::vector<TokenId>{});
}

TEST(GrammarMatcher, a_token_that_is_refused_changes_nothing) {
  GrammarMatcher matcher(regex("ab"));
  EXPECT_TRUE(matcher.accept('a'));
  for (const TokenId id : {TokenId{'a'}, TokenId{-1}, TokenId{257}, TokenId{1 << 20}}) {
    EXPECT_FALSE(matcher.accept(id)) << id;
  }
  EXPECT_EQ(matcher.rollback_limit(), 1u);
  EXPECT_TRUE(matcher.accept('b'));
}

TEST(GrammarMatcher, rollback_undoes_the_stop_too) {
  GrammarMatcher matcher(regex("a*"));
  for (const TokenId id : {TokenId{'a'}, TokenId{'a'}, kStop}) EXPECT_TRUE(matcher.accept(id));
  matcher.rollback(1);
  EXPECT_FALSE(matcher.is_finished());
  EXPECT_TRUE(matcher.accept('a'));
  matcher.rollback(3);
  EXPECT_EQ(matcher.rollback_limit(), 0u);
  EXPECT_TRUE(matcher.can_stop());
}

TEST(GrammarMatcher, a_long_text_keeps_a_bounded_history) {
  GrammarMatcher matcher(*Grammar::ebnf("root ::= \"(\" root \")\" | \"x\"", byte_vocabulary()));
  constexpr int kDepth = 20'000;
  for (int i = 0; i < kDepth; ++i) ASSERT_TRUE(matcher.accept('('));
  EXPECT_EQ(matcher.rollback_limit(), GrammarMatcher::kMaxRollback);
  ASSERT_TRUE(matcher.accept('x'));
  const GrammarMatcher copy = matcher;
  matcher.rollback(3);
  ASSERT_TRUE(matcher.accept('x'));
  for (int i = 0; i < kDepth - 2; ++i) ASSERT_TRUE(matcher.accept(')'));
  EXPECT_TRUE(matcher.can_stop());
  EXPECT_FALSE(copy.can_stop());
  EXPECT_FALSE(matcher.accept(')'));
}

TEST(GrammarMatcher, copies_are_independent) {
  GrammarMatcher one(regex("a(b|c)d"));
  EXPECT_TRUE(one.accept('a'));
  GrammarMatcher two = one;
  EXPECT_TRUE(one.accept('b'));
  EXPECT_TRUE(two.accept('c'));
  two.rollback(2);
  EXPECT_EQ(allowed(&two), (std::vector<TokenId>{'a'}));
  EXPECT_EQ(allowed(&one), (std::vector<TokenId>{'d'}));
  two = one;
  EXPECT_EQ(allowed(&two), (std::vector<TokenId>{'d'}));
}

TEST(GrammarMatcher, forced_bytes_end_where_there_is_a_choice) {
  const auto grammar = Grammar::json_schema(
      R"({"type":"object","properties":{"answer":{"enum":["yes","yeah"]}},
          "required":["answer"],"additionalProperties":false})",
      byte_vocabulary());
  GrammarMatcher matcher(*grammar);
  EXPECT_EQ(matcher.forced(100), "{");
  EXPECT_TRUE(matcher.accept('{'));
  EXPECT_EQ(matcher.forced(100), "");  // a space or a quote
  EXPECT_TRUE(matcher.accept('"'));
  EXPECT_EQ(matcher.forced(3), "ans");
  EXPECT_EQ(matcher.forced(100), "answer\":");
  GrammarMatcher done(regex("a"));
  EXPECT_TRUE(done.accept('a'));
  EXPECT_EQ(done.forced(100), "");
}

TEST(Grammar, threads_may_share_one) {
  const auto grammar = Grammar::json_object(byte_vocabulary());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      GrammarMatcher matcher(grammar);
      for (const char c : std::string_view(R"({"a": [1, "x"], "b": {"c": null}})")) {
        const auto ids = allowed(&matcher);
        ASSERT_TRUE(std::binary_search(ids.begin(), ids.end(), TokenId{c}));
        ASSERT_TRUE(matcher.accept(c));
      }
      EXPECT_TRUE(matcher.can_stop());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tandem
