// Which drafts of a verified block stand, and which token follows them. Every rule here is
// lossless: tokens come out distributed as without drafts.
//
// | rule       | for                        | the text with a seed |
// |------------|----------------------------|------------------------------------------------------|
// | matching   | greedy; any drafts         | the very text that the request gets without drafts |
// | token-wise | drafts drawn from q        | another of the same distribution; depends on the | |
// block      | the same, accepts the most | drafts and on how many of them were verified         |
//
// Matching draws row after row as plain decoding does and keeps drafts while they agree. It accepts
// a draft d with probability p(d), which no lossless rule beats where drafts are chosen and not
// drawn (n-grams, the draft model's best). For drawn drafts the two others accept more: token-wise
// 1 - TV(p, q) for each draft (Leviathan et al., arXiv 2211.17192; Chen et al., 2302.01318), block
// verification never fewer tokens in expectation (Sun et al., 2403.10444).
//
// Row i of the target is its distribution after the anchor and the first i drafts, after all that
// the request's sampling does to it: penalties and grammar along that path, temperature,
// truncation. Log-probs of emitted token i are those of row i; matching passes on the sampler's.
//
// `rows` may equal the drafts n, not only n + 1. Then no token follows an accepted last draft: that
// draft is what the last row yields (a "capped" chain). A rule that decides how many drafts are
// verified may look, for draft k, at drafts before k; with capped chains at draft k too; never
// further. verify_planner.h keeps to the first.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/sampled_token.h"
#include "base/status.h"
#include "speculate/chance.h"

namespace tandem {

// Probabilities are in double and need not be normalised to the last bit.
struct VerifiedBlock {
  std::span<const TokenId> drafts;   // n >= 0
  std::span<const double> target;    // p [rows, vocab], rows = n or n + 1, at least 1
  std::span<const double> proposal;  // q [n, vocab]; empty: the drafts were chosen, not drawn
  std::int64_t vocab = 0;
};

struct Acceptance {
  std::int64_t drafts = 0;  // so many of the first drafts stand
  std::optional<TokenId> bonus =
      std::nullopt;  // what follows them; none at the end of a capped chain

  // Tokens that come out; so many rows are to be committed, the anchor's among them.
  std::int64_t tokens() const { return drafts + (bonus ? 1 : 0); }
};

// A row of q whose entry for the draft is not above 0 (NaN from a broken draft model, say) counts
// as chosen, which is lossless however the draft came about.
Acceptance accept_token_wise(const VerifiedBlock& block, Chance& chance);
Acceptance accept_block(const VerifiedBlock& block, Chance& chance);

// A token drawn for a row, and whether the answer ends with it (a stop id, a stop string, the
// length, a finished grammar).
struct DrawnToken {
  SampledToken token;
  bool ends = false;
};
// Draws the token of row i, as without drafts. Called for 0, 1, ... in order, each at most once;
// the tokens drawn before are those of the path.
using DrawRow = std::function<Result<DrawnToken>(std::int64_t row)>;

// The tokens that come out, >= 1; the last one is the new anchor. Draws no row after a token that
// ends the answer or is not the draft. An error of `draw` is passed on.
Result<std::vector<SampledToken>> accept_matching(std::span<const TokenId> drafts,
                                                  std::int64_t rows, const DrawRow& draw);

}  // namespace tandem
