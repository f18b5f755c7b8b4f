// Prompt lookup: the answer goes on as it did where its last tokens stood before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "speculate/proposer.h"

namespace tandem {

struct NgramOptions {
  std::int64_t min_match = 2;  // tokens, >= 1
  std::int64_t max_match = 5;  // tokens, min_match to 16
  // Never proposed, nor what would follow them: placeholders of images, for one.
  std::vector<TokenId> excluded = {};
};

// Where every n-gram of one sequence was last followed by something, for n of a range. Adding a
// token takes max_match steps, whatever the length of the sequence; so does a look-up. Holds no
// tokens: callers pass the same, growing sequence.
class NgramIndex {
 public:
  NgramIndex(std::int64_t min_match, std::int64_t max_match);

  // Adds what is new in `tokens`.
  void extend(std::span<const TokenId> tokens);

  struct Match {
    std::int64_t length = 0;  // tokens of the suffix that were found; 0: nothing
    std::int64_t next = 0;    // index of the token that followed
  };
  // The longest suffix of `tokens`, which must be indexed, at its latest earlier place.
  Match longest_suffix(std::span<const TokenId> tokens) const;

  std::int64_t indexed_tokens() const { return indexed_; }

 private:
  // Open addressing, at most half full. An entry is the index of the token after the n-gram; the
  // n-gram itself stands in the sequence.
  struct Table {
    std::vector<std::int32_t> slots;  // 0 is free: no n-gram ends before index 0
    std::size_t used = 0;
  };

  // Of the n-grams that end before `end`, by n - 1; returns how many fit.
  std::int64_t hash_suffixes(std::span<const TokenId> tokens, std::int64_t end,
                             std::span<std::uint64_t> hashes) const;
  void insert(Table& table, std::span<const TokenId> tokens, std::int64_t length, std::int64_t end,
              std::uint64_t hash);
  void grow(Table& table, std::span<const TokenId> tokens, std::int64_t length);

  std::int64_t min_match_;
  std::int64_t max_match_;
  std::int64_t indexed_ = 0;
  std::vector<Table> tables_;  // by n - min_match
};

// Drafts without a model, one chain a request. Its confidences are how often drafts at that place
// of a block were right after a match that long, of all requests so far.
class NgramProposer : public Proposer {
 public:
  // Fails if a number is out of its range.
  static Result<std::unique_ptr<NgramProposer>> create(const NgramOptions& options);

  void propose(std::span<const DraftQuery> queries, std::span<DraftBlock> blocks) override;
  void learn(std::span<const DraftOutcome> outcomes) override;
  void forget(RequestId request) override;

 private:
  struct Sequence {
    NgramIndex index;
    std::int64_t match = 0;  // length behind the latest block
  };

  explicit NgramProposer(const NgramOptions& options);
  void propose_one(const DraftQuery& query, DraftBlock& block);
  // The share of drafts that were right, for a match length and a place in the block.
  double& accepted_share(std::int64_t match, std::int64_t place);

  NgramOptions options_;
  std::unordered_map<RequestId, Sequence> sequences_;
  std::vector<std::vector<double>> accepted_shares_;  // [match - min_match][place]
};

}  // namespace tandem
