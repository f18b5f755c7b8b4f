#include "speculate/ngram_proposer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <string_view>

#include "base/philox.h"

namespace tandem {
namespace {

using Tokens = std::vector<TokenId>;

Tokens letters(std::string_view text) { return {text.begin(), text.end()}; }

std::unique_ptr<NgramProposer> proposer(const NgramOptions& options = {}) {
  return NgramProposer::create(options).value();
}

DraftBlock draft(NgramProposer& proposer, const Tokens& tokens, std::int64_t max_drafts,
                 std::uint64_t request = 1) {
  const DraftQuery query = {RequestId{request}, tokens, max_drafts};
  DraftBlock block;
  proposer.propose({&query, 1}, {&block, 1});
  return block;
}

// Looks at every place, the latest first.
NgramIndex::Match searched(const Tokens& tokens, std::int64_t min_match, std::int64_t max_match) {
  const auto size = static_cast<std::int64_t>(tokens.size());
  for (std::int64_t n = std::min(max_match, size); n >= min_match; --n) {
    for (std::int64_t end = size - 1; end >= n; --end) {
      if (std::equal(tokens.end() - n, tokens.end(), tokens.begin() + (end - n))) return {n, end};
    }
  }
  return {};
}

TEST(NgramProposerTest, goes_on_as_it_did_after_the_longest_and_latest_match) {
  const auto p = proposer();
  EXPECT_EQ(draft(*p, letters("xabcdefg zbcQRST xabc"), 4).tokens, letters("defg"));
  EXPECT_EQ(draft(*p, letters("abcONE abcTWO abc"), 3, 2).tokens, letters("TWO"));
}

TEST(NgramProposerTest, a_match_that_is_too_short_gives_no_drafts) {
  EXPECT_TRUE(draft(*proposer(), letters("ab cb"), 4).tokens.empty());
  EXPECT_EQ(draft(*proposer({.min_match = 1}), letters("ab cb"), 2).tokens, letters(" c"));
}

TEST(NgramProposerTest, a_repetition_goes_on_past_the_end_of_the_text) {
  EXPECT_EQ(draft(*proposer(), letters("abcabc"), 7).tokens, letters("abcabca"));
}

TEST(NgramProposerTest, a_prompt_of_one_token_and_no_room_for_drafts_give_none) {
  const auto p = proposer();
  EXPECT_TRUE(draft(*p, letters("a"), 7).tokens.empty());
  EXPECT_TRUE(draft(*p, letters("aaaaaaa"), 0).tokens.empty());
}

TEST(NgramProposerTest, an_excluded_token_ends_the_block) {
  const auto p = proposer({.excluded = {'!'}});
  EXPECT_EQ(draft(*p, letters("abcd!ef abc"), 6).tokens, letters("d"));
}

TEST(NgramProposerTest, requests_do_not_see_each_other_and_an_id_may_be_used_again) {
  const auto p = proposer();
  EXPECT_FALSE(draft(*p, letters("abcabc"), 3, 1).tokens.empty());
  EXPECT_TRUE(draft(*p, letters("xyzabc"), 3, 2).tokens.empty());
  p->forget(RequestId{1});
  EXPECT_TRUE(draft(*p, letters("abc"), 3, 1).tokens.empty());
}

TEST(NgramProposerTest, confidences_follow_what_became_of_the_drafts) {
  const auto p = proposer();
  const Tokens tokens = letters("abcdabc");
  const RequestId request{1};
  for (int i = 0; i < 400; ++i) {
    draft(*p, tokens, 3);
    // The first draft always right, the second never, the third never seen.
    const DraftOutcome outcome = {request, 3, 1};
    p->learn({&outcome, 1});
  }
  const auto logits = draft(*p, tokens, 3).confidence_logits;
  ASSERT_EQ(logits.size(), 3u);
  EXPECT_GT(logits[0], 3);
  EXPECT_LT(logits[1], -3);
  EXPECT_EQ(logits[2], 0);
  // Another match length has its own record.
  EXPECT_EQ(draft(*p, letters("abcdbc xbc"), 1, 2).confidence_logits[0], 0);
}

TEST(NgramProposerTest, drafts_that_were_not_verified_teach_nothing) {
  const auto p = proposer();
  const Tokens tokens = letters("abcdabc");
  draft(*p, tokens, 3);
  const DraftOutcome outcome = {RequestId{1}, 1, 1};
  p->learn({&outcome, 1});
  const auto logits = draft(*p, tokens, 3).confidence_logits;
  EXPECT_GT(logits[0], 0);
  EXPECT_EQ(logits[1], 0);
}

TEST(NgramProposerTest, options_out_of_range_are_refused) {
  EXPECT_FALSE(NgramProposer::create({.min_match = 0}));
  EXPECT_FALSE(NgramProposer::create({.min_match = 4, .max_match = 3}));
  EXPECT_FALSE(NgramProposer::create({.max_match = 17}));
}

TEST(NgramIndexTest, finds_what_a_search_of_the_whole_sequence_finds) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const std::uint64_t vocab = 2 + seed % 5;
    NgramIndex index(1 + static_cast<std::int64_t>(seed % 3), 6);
    Tokens tokens;
    for (std::uint64_t i = 0; i < 400; ++i) {
      tokens.push_back(static_cast<TokenId>(philox_uniform(seed, i) * static_cast<double>(vocab)));
      // In pieces of several tokens too, as accepted drafts arrive.
      if (philox_uniform(seed + 1000, i) < 0.3) continue;
      index.extend(tokens);
      const auto found = index.longest_suffix(tokens);
      const auto wanted = searched(tokens, 1 + static_cast<std::int64_t>(seed % 3), 6);
      ASSERT_EQ(found.length, wanted.length);
      ASSERT_EQ(found.next, wanted.next);
    }
  }
}

// Distinct n-grams everywhere, the most work: what a token costs must not grow with the sequence.
TEST(NgramIndexTest, a_token_costs_the_same_in_a_sequence_of_a_million) {
  Tokens tokens;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    tokens.push_back(static_cast<TokenId>(philox(7, {static_cast<std::uint32_t>(i)})[0] >> 1));
  }
  const auto seconds = [&](std::size_t size) {
    const std::clock_t start = std::clock();  // of this process: it may be stopped meanwhile
    NgramIndex index(2, 5);
    // A look-up after every 64 tokens; a rescan would take minutes.
    for (std::size_t end = 64; end <= size; end += 64) {
      index.extend(std::span(tokens).first(end));
      EXPECT_EQ(index.longest_suffix(std::span(tokens).first(end)).length, 0);
    }
    return static_cast<double>(std::clock() - start);
  };
  const double small = seconds(100'000);
  // Ten times the tokens; the margin is for caches that no longer hold the tables.
  EXPECT_LT(seconds(1'000'000), 100 * small);
}

}  // namespace
}  // namespace tandem
