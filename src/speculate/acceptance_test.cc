#include "speculate/acceptance.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "speculate/acceptance_testing.h"

namespace tandem {
namespace {

using Rule = Acceptance (*)(const VerifiedBlock&, Chance&);
constexpr std::size_t kDrafts = 3;

enum class Window { kFull, kCapped };  // whether a row follows the last draft
enum class Drafts { kDrawn, kChosen };

// How many drafts of a path are verified.
using Cut = std::function<std::size_t(const Path& drafts)>;
Cut cut_at(std::size_t count) {
  return [count](const Path&) { return count; };
}

struct Outcomes {
  std::map<Path, double> joint;  // of the next kDrafts + 1 tokens
  double tokens = 0;             // expected number that comes out
};

// Of every draft, every coin and every bonus; what a block leaves open is filled up by the target.
Outcomes enumerate(const TinyLanguage& target, const TinyLanguage& draft, Rule rule, Window window,
                   Drafts drafts, const Cut& cut) {
  Outcomes outcomes;
  for (const Path& path : all_paths(target.vocab, kDrafts)) {
    // Chosen drafts: this one path, whatever it is; it is lossless for each by itself.
    const double path_probability =
        drafts == Drafts::kDrawn ? draft.probability(path) : 1 / std::pow(target.vocab, kDrafts);
    if (path_probability == 0) continue;
    const std::size_t verified = cut(path);
    const std::size_t rows = window == Window::kFull ? verified + 1 : verified;
    std::vector<double> p, q;
    for (std::size_t i = 0; i < rows; ++i) {
      const auto row = target.after(std::span(path).first(i));
      p.insert(p.end(), row.begin(), row.end());
    }
    for (std::size_t i = 0; i < verified && drafts == Drafts::kDrawn; ++i) {
      const auto row = draft.after(std::span(path).first(i));
      q.insert(q.end(), row.begin(), row.end());
    }
    const VerifiedBlock block = {std::span(path).first(verified), p, q,
                                 static_cast<std::int64_t>(target.vocab)};
    EveryChance chance;
    do {
      const Acceptance accepted = rule(block, chance);
      const double probability = path_probability * chance.probability();
      if (probability == 0) continue;
      Path out(path.begin(), path.begin() + accepted.drafts);
      if (accepted.bonus) out.push_back(*accepted.bonus);
      outcomes.tokens += probability * static_cast<double>(accepted.tokens());
      for (const Path& rest : all_paths(target.vocab, kDrafts + 1 - out.size())) {
        Path whole = out;
        double filled = probability;
        for (const TokenId token : rest) {
          filled *= target.after(whole)[static_cast<std::size_t>(token)];
          whole.push_back(token);
        }
        outcomes.joint[whole] += filled;
      }
    } while (chance.next());
  }
  return outcomes;
}

double largest_difference(const Outcomes& outcomes, const TinyLanguage& target) {
  double largest = 0;
  for (const Path& path : all_paths(target.vocab, kDrafts + 1)) {
    const auto found = outcomes.joint.find(path);
    const double probability = found == outcomes.joint.end() ? 0.0 : found->second;
    largest = std::max(largest, std::abs(probability - target.probability(path)));
  }
  return largest;
}

constexpr Rule kRules[] = {accept_token_wise, accept_block};

TEST(AcceptanceTest, every_rule_is_lossless_to_the_last_path_for_every_verify_length) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const TinyLanguage target{seed}, draft{seed + 100};
    for (const Rule rule : kRules) {
      for (const Drafts drafts : {Drafts::kDrawn, Drafts::kChosen}) {
        for (std::size_t verified = 0; verified <= kDrafts; ++verified) {
          EXPECT_LT(
              largest_difference(
                  enumerate(target, draft, rule, Window::kFull, drafts, cut_at(verified)), target),
              1e-12);
          if (verified == 0) continue;
          EXPECT_LT(largest_difference(
                        enumerate(target, draft, rule, Window::kCapped, drafts, cut_at(verified)),
                        target),
                    1e-12);
        }
      }
    }
  }
}

// Draft k is verified or not by what drafts before it say; capped, by what it says itself as well.
Cut cut_by_drafts(std::size_t looks_ahead, std::size_t least) {
  return [=](const Path& path) {
    std::size_t k = least;
    for (; k < path.size(); ++k) {
      int sum = 0;
      for (std::size_t i = 0; i < std::min(path.size(), k + looks_ahead); ++i) sum += path[i];
      if (sum % 2 == 1) break;
    }
    return k;
  };
}

TEST(AcceptanceTest, a_verify_length_may_follow_from_the_drafts_before_it) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const TinyLanguage target{seed}, draft{seed + 100};
    for (const Rule rule : kRules) {
      EXPECT_LT(largest_difference(enumerate(target, draft, rule, Window::kFull, Drafts::kDrawn,
                                             cut_by_drafts(0, 0)),
                                   target),
                1e-12);
      // Capped, the last row yields the draft behind it, on whose fellow the length may depend.
      EXPECT_LT(largest_difference(enumerate(target, draft, rule, Window::kCapped, Drafts::kDrawn,
                                             cut_by_drafts(0, 1)),
                                   target),
                1e-12);
    }
  }
}

// Why a planner must not choose the best length by this step's confidences: the enumeration sees
// it.
TEST(AcceptanceTest, a_verify_length_that_follows_from_the_draft_itself_is_biased) {
  const auto counterexample = [](std::size_t looks_ahead, Window window) {
    // A draft of (1/2, 1/2) for a target of (0.7, 0.3); drafts of the second token are dropped.
    const Path paths[] = {{0}, {1}};
    const double p[] = {0.7, 0.3, 0.7, 0.3}, q[] = {0.5, 0.5};
    double first = 0;
    for (const Path& path : paths) {
      const bool verified = looks_ahead == 0 || path[0] == 0;
      const std::size_t rows = verified && window == Window::kFull ? 2 : 1;
      const VerifiedBlock block = {std::span(path).first(verified ? 1 : 0),
                                   std::span(p).first(2 * rows),
                                   std::span(q).first(verified ? 2 : 0), 2};
      EveryChance chance;
      do {
        const Acceptance accepted = accept_token_wise(block, chance);
        const TokenId token = accepted.drafts > 0 ? path[0] : *accepted.bonus;
        if (token == 0) first += 0.5 * chance.probability();
      } while (chance.next());
    }
    return first;
  };
  EXPECT_NEAR(counterexample(0, Window::kFull), 0.7, 1e-12);
  EXPECT_NEAR(counterexample(1, Window::kFull), 0.85, 1e-12);

  double largest = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const TinyLanguage target{seed}, draft{seed + 100};
    largest = std::max(largest,
                       largest_difference(enumerate(target, draft, accept_token_wise, Window::kFull,
                                                    Drafts::kDrawn, cut_by_drafts(1, 0)),
                                          target));
  }
  EXPECT_GT(largest, 0.01);
}

TEST(AcceptanceTest, block_verification_accepts_at_least_as_much_as_token_wise) {
  double token_wise = 0, block = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const TinyLanguage target{seed}, draft{seed + 100};
    const double one =
        enumerate(target, draft, accept_token_wise, Window::kFull, Drafts::kDrawn, cut_at(kDrafts))
            .tokens;
    const double other =
        enumerate(target, draft, accept_block, Window::kFull, Drafts::kDrawn, cut_at(kDrafts))
            .tokens;
    EXPECT_GE(other, one - 1e-12);
    token_wise += one;
    block += other;
  }
  EXPECT_GT(block, 1.02 * token_wise);
}

TEST(AcceptanceTest, a_draft_of_the_target_itself_is_always_accepted) {
  const TinyLanguage target{5};
  for (const Rule rule : kRules) {
    EXPECT_NEAR(
        enumerate(target, target, rule, Window::kFull, Drafts::kDrawn, cut_at(kDrafts)).tokens,
        kDrafts + 1, 1e-12);
  }
}

TEST(AcceptanceTest, a_broken_proposal_counts_as_chosen) {
  const Path path = {1};
  const double p[] = {0.2, 0.5, 0.3, 0.2, 0.5, 0.3};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double q[] = {nan, nan, nan};
  for (const Rule rule : kRules) {
    std::vector<double> out(3);
    EveryChance chance;
    do {
      const Acceptance accepted = rule({path, p, q, 3}, chance);
      out[static_cast<std::size_t>(accepted.drafts > 0 ? path[0] : *accepted.bonus)] +=
          chance.probability();
    } while (chance.next());
    for (std::size_t x = 0; x < 3; ++x) EXPECT_NEAR(out[x], p[x], 1e-12);
  }
}

// Several blocks one after the other, with the coins that are really thrown.
std::map<Path, double> sampled_answers(const TinyLanguage& target, const TinyLanguage& draft,
                                       Rule rule, std::size_t length, std::uint64_t count) {
  std::map<Path, double> answers;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    Path path;
    while (path.size() < length) {
      const std::uint64_t start = path.size();
      Path drafts = path;
      std::vector<double> p, q;
      for (std::size_t i = 0; i <= kDrafts; ++i) {
        const auto row = target.after(drafts);
        p.insert(p.end(), row.begin(), row.end());
        if (i == kDrafts) break;
        const auto proposal = draft.after(drafts);
        q.insert(q.end(), proposal.begin(), proposal.end());
        drafts.push_back(static_cast<TokenId>(pick_weighted(
            proposal,
            block_uniform(seed, start, DrawPurpose::kDraft, static_cast<std::int64_t>(i)))));
      }
      drafts.erase(drafts.begin(), drafts.begin() + static_cast<std::ptrdiff_t>(start));
      SeededChance chance(seed, start);
      const Acceptance accepted =
          rule({drafts, p, q, static_cast<std::int64_t>(target.vocab)}, chance);
      path.insert(path.end(), drafts.begin(), drafts.begin() + accepted.drafts);
      path.push_back(*accepted.bonus);
    }
    path.resize(length);
    ++answers[path];
  }
  return answers;
}

TEST(AcceptanceTest, a_hundred_thousand_answers_are_distributed_as_without_drafts) {
  constexpr std::size_t kLength = 4;
  constexpr std::uint64_t kAnswers = 100'000;
  const TinyLanguage target{3}, draft{104};
  for (const Rule rule : kRules) {
    const auto answers = sampled_answers(target, draft, rule, kLength, kAnswers);
    double statistic = 0;
    int cells = 0;
    for (const Path& path : all_paths(target.vocab, kLength)) {
      const double expected = target.probability(path) * static_cast<double>(kAnswers);
      const auto found = answers.find(path);
      const double seen = found == answers.end() ? 0.0 : found->second;
      if (expected == 0) {
        EXPECT_EQ(seen, 0);
        continue;
      }
      statistic += (seen - expected) * (seen - expected) / expected;
      ++cells;
    }
    // Wilson and Hilferty's cube for the quantile of 1 - 1e-4 (3.72 deviations of the normal).
    const double freedom = cells - 1;
    const double cube = 1 - 2 / (9 * freedom) + 3.72 * std::sqrt(2 / (9 * freedom));
    EXPECT_LT(statistic, freedom * cube * cube * cube) << cells << " cells";
  }
}

TEST(AcceptanceTest, the_same_seed_and_block_go_the_same_way_and_other_ones_do_not) {
  int same = 0;
  for (std::uint64_t block = 0; block < 64; ++block) {
    const auto coin = block_uniform(9, block, DrawPurpose::kAccept, 2);
    EXPECT_EQ(coin, block_uniform(9, block, DrawPurpose::kAccept, 2));
    same += coin == block_uniform(9, block, DrawPurpose::kAccept, 3);
    same += coin == block_uniform(9, block, DrawPurpose::kDraft, 2);
    same += coin == block_uniform(10, block, DrawPurpose::kAccept, 2);
    same += coin == philox_uniform(9, block);
  }
  EXPECT_EQ(same, 0);
}

Result<std::vector<SampledToken>> match(const Path& drafts, std::int64_t rows, const Path& drawn,
                                        std::int64_t ends_at, std::int64_t* draws = nullptr) {
  return accept_matching(drafts, rows, [&](std::int64_t row) -> Result<DrawnToken> {
    if (draws != nullptr) ++*draws;
    const TokenId id = drawn[static_cast<std::size_t>(row)];
    if (id < 0) return fail(StatusCode::kInternal, "no token fits");
    return DrawnToken{{.id = id, .logprob = -static_cast<float>(row)}, row == ends_at};
  });
}

TEST(AcceptanceTest, matching_keeps_drafts_while_they_are_what_is_drawn) {
  for (const Path& drafts : all_paths(2, 3)) {
    for (const Path& drawn : all_paths(2, 4)) {
      for (const std::int64_t rows : {3, 4}) {
        std::size_t wanted = 1;
        while (wanted < static_cast<std::size_t>(rows) && drafts[wanted - 1] == drawn[wanted - 1]) {
          ++wanted;
        }
        std::int64_t draws = 0;
        const auto tokens = match(drafts, rows, drawn, -1, &draws).value();
        ASSERT_EQ(tokens.size(), wanted);
        EXPECT_EQ(draws, static_cast<std::int64_t>(wanted));
        for (std::size_t i = 0; i < wanted; ++i) {
          EXPECT_EQ(tokens[i].id, drawn[i]);
          EXPECT_EQ(tokens[i].logprob, -static_cast<float>(i));  // of its own row
        }
      }
    }
  }
}

TEST(AcceptanceTest, nothing_is_drawn_after_a_token_that_ends_the_answer) {
  // A finished grammar has no token to offer: drawing on would be an error.
  const auto tokens = match({1, 2, 3}, 4, {1, 2, -1, -1}, 1);
  ASSERT_TRUE(tokens);
  EXPECT_EQ(tokens->size(), 2u);
  EXPECT_FALSE(match({1, 2, 3}, 4, {1, 2, -1, -1}, -1));
}

}  // namespace
}  // namespace tandem
