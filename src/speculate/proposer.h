// Who guesses the next tokens of requests, so that one step of the model can check several.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace tandem {

// A request that wants drafts. The last of `tokens` is its anchor: drawn, not yet computed.
struct DraftQuery {
  RequestId request;
  std::span<const TokenId> tokens;  // prompt and answer so far, >= 1; only ever grows
  std::int64_t max_drafts = 0;      // >= 0
  // Of the request, for proposers that draw their drafts; 0 asks for the most probable ones.
  float temperature = 0;
  std::uint64_t seed = 0;
};

// What a proposer guesses for one request: tokens to come after the anchor, perhaps none.
struct DraftBlock {
  std::vector<TokenId> tokens = {};  // n <= max_drafts
  // The distribution that each draft was drawn from, [n, vocab]. Empty: the drafts were chosen, not
  // drawn.
  std::vector<double> probabilities = {};
  // Log-odds that a draft is accepted given that those before it are, before calibration; [n], or
  // empty if the proposer has no idea. Entry k may depend on drafts before k only: verify lengths
  // chosen from it stay lossless for that reason.
  std::vector<float> confidence_logits = {};

  void clear() {
    tokens.clear();
    probabilities.clear();
    confidence_logits.clear();
  }
};

// What became of a block: of its first `verified` drafts the first `accepted` were right.
struct DraftOutcome {
  RequestId request;
  std::int64_t verified = 0;
  std::int64_t accepted = 0;  // <= verified
};

// Drafts depend on the queries' requests only, never on who shares the call. Owned by one step
// loop.
class Proposer {
 public:
  virtual ~Proposer() = default;
  Proposer() = default;
  Proposer(const Proposer&) = delete;
  Proposer& operator=(const Proposer&) = delete;

  // Fills one block a query. Blocks keep their memory from call to call.
  virtual void propose(std::span<const DraftQuery> queries, std::span<DraftBlock> blocks) = 0;
  // Tells of the latest block of each request, for proposers that learn how far to trust
  // themselves.
  virtual void learn(std::span<const DraftOutcome> outcomes) = 0;
  // The request is over; what was kept for it goes.
  virtual void forget(RequestId request) = 0;
};

}  // namespace tandem
