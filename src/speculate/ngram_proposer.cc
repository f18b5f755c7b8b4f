#include "speculate/ngram_proposer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "base/check.h"

namespace tandem {
namespace {

constexpr std::int64_t kLongestMatch = 16;
constexpr std::size_t kFirstSlots = 64;
// A share starts at a guess and follows what is seen with the memory of about 50 drafts.
constexpr double kLearningRate = 0.02;
constexpr double kFirstShare = 0.5;
constexpr double kLeastShare = 0.01;  // so that log-odds stay finite

// One round of a multiply-and-shift mixer (the finaliser of MurmurHash3).
std::uint64_t mixed(std::uint64_t hash, TokenId token) {
  hash ^= static_cast<std::uint32_t>(token) + 0x9E3779B97F4A7C15ull;
  hash *= 0xFF51AFD7ED558CCDull;
  return hash ^ (hash >> 33);
}

bool same_ngram(std::span<const TokenId> tokens, std::int64_t length, std::int64_t end,
                std::int64_t other_end) {
  const TokenId* one = tokens.data() + (end - length);
  return std::equal(one, one + length, tokens.data() + (other_end - length));
}

}  // namespace

NgramIndex::NgramIndex(std::int64_t min_match, std::int64_t max_match)
    : min_match_(min_match),
      max_match_(max_match),
      tables_(static_cast<std::size_t>(max_match - min_match + 1)) {
  CHECK(min_match >= 1 && min_match <= max_match && max_match <= kLongestMatch, "{} to {} tokens",
        min_match, max_match);
}

std::int64_t NgramIndex::hash_suffixes(std::span<const TokenId> tokens, std::int64_t end,
                                       std::span<std::uint64_t> hashes) const {
  const std::int64_t count = std::min(end, max_match_);
  std::uint64_t hash = 0;
  for (std::int64_t n = 1; n <= count; ++n) {
    hash = mixed(hash, tokens[static_cast<std::size_t>(end - n)]);
    hashes[static_cast<std::size_t>(n - 1)] = hash;
  }
  return count;
}

void NgramIndex::extend(std::span<const TokenId> tokens) {
  const auto size = static_cast<std::int64_t>(tokens.size());
  CHECK(size >= indexed_ && size <= std::numeric_limits<std::int32_t>::max(),
        "a sequence of {} tokens that had {}", size, indexed_);
  std::array<std::uint64_t, kLongestMatch> hashes;
  for (; indexed_ < size; ++indexed_) {
    const std::int64_t count = hash_suffixes(tokens, indexed_, hashes);
    for (std::int64_t n = min_match_; n <= count; ++n) {
      insert(tables_[static_cast<std::size_t>(n - min_match_)], tokens, n, indexed_,
             hashes[static_cast<std::size_t>(n - 1)]);
    }
  }
}

void NgramIndex::insert(Table& table, std::span<const TokenId> tokens, std::int64_t length,
                        std::int64_t end, std::uint64_t hash) {
  if (2 * (table.used + 1) > table.slots.size()) grow(table, tokens, length);
  const std::size_t mask = table.slots.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    if (table.slots[at] == 0) {
      ++table.used;
    } else if (!same_ngram(tokens, length, end, table.slots[at])) {
      continue;
    }
    table.slots[at] = static_cast<std::int32_t>(end);
    return;
  }
}

void NgramIndex::grow(Table& table, std::span<const TokenId> tokens, std::int64_t length) {
  const std::vector<std::int32_t> old = std::move(table.slots);
  table.slots.assign(std::max(kFirstSlots, 2 * old.size()), 0);
  table.used = 0;
  std::array<std::uint64_t, kLongestMatch> hashes;
  for (const std::int32_t end : old) {
    if (end == 0) continue;
    hash_suffixes(tokens, end, hashes);
    insert(table, tokens, length, end, hashes[static_cast<std::size_t>(length - 1)]);
  }
}

NgramIndex::Match NgramIndex::longest_suffix(std::span<const TokenId> tokens) const {
  const auto size = static_cast<std::int64_t>(tokens.size());
  CHECK(size == indexed_, "{} tokens, of which {} are indexed", size, indexed_);
  std::array<std::uint64_t, kLongestMatch> hashes;
  for (std::int64_t n = hash_suffixes(tokens, size, hashes); n >= min_match_; --n) {
    const Table& table = tables_[static_cast<std::size_t>(n - min_match_)];
    if (table.slots.empty()) continue;
    const std::size_t mask = table.slots.size() - 1;
    for (std::size_t at = hashes[static_cast<std::size_t>(n - 1)] & mask; table.slots[at] != 0;
         at = (at + 1) & mask) {
      if (same_ngram(tokens, n, size, table.slots[at])) return {n, table.slots[at]};
    }
  }
  return {};
}

Result<std::unique_ptr<NgramProposer>> NgramProposer::create(const NgramOptions& options) {
  if (options.min_match < 1 || options.max_match < options.min_match ||
      options.max_match > kLongestMatch) {
    return invalid("n-gram matches of {} to {} tokens: expected 1 <= shortest <= longest <= {}",
                   options.min_match, options.max_match, kLongestMatch);
  }
  return std::unique_ptr<NgramProposer>(new NgramProposer(options));
}

NgramProposer::NgramProposer(const NgramOptions& options)
    : options_(options),
      accepted_shares_(static_cast<std::size_t>(options.max_match - options.min_match + 1)) {}

double& NgramProposer::accepted_share(std::int64_t match, std::int64_t place) {
  auto& shares = accepted_shares_[static_cast<std::size_t>(match - options_.min_match)];
  if (place >= static_cast<std::int64_t>(shares.size())) {
    shares.resize(static_cast<std::size_t>(place + 1), kFirstShare);
  }
  return shares[static_cast<std::size_t>(place)];
}

void NgramProposer::propose(std::span<const DraftQuery> queries, std::span<DraftBlock> blocks) {
  CHECK(queries.size() == blocks.size(), "{} queries, {} blocks", queries.size(), blocks.size());
  for (std::size_t i = 0; i < queries.size(); ++i) propose_one(queries[i], blocks[i]);
}

void NgramProposer::propose_one(const DraftQuery& query, DraftBlock& block) {
  block.clear();
  Sequence& sequence =
      sequences_
          .try_emplace(query.request, Sequence{NgramIndex(options_.min_match, options_.max_match)})
          .first->second;
  sequence.index.extend(query.tokens);
  const NgramIndex::Match match = sequence.index.longest_suffix(query.tokens);
  sequence.match = match.length;
  if (match.length == 0) return;
  for (std::int64_t k = 0; k < query.max_drafts; ++k) {
    // Past the end of the sequence a repetition goes on with its own drafts.
    const auto from = static_cast<std::size_t>(match.next + k);
    const TokenId token =
        from < query.tokens.size() ? query.tokens[from] : block.tokens[from - query.tokens.size()];
    const auto& excluded = options_.excluded;
    if (std::find(excluded.begin(), excluded.end(), token) != excluded.end()) return;
    block.tokens.push_back(token);
    const double share = accepted_share(match.length, k);
    block.confidence_logits.push_back(static_cast<float>(std::log(share / (1 - share))));
  }
}

void NgramProposer::learn(std::span<const DraftOutcome> outcomes) {
  for (const DraftOutcome& outcome : outcomes) {
    const auto found = sequences_.find(outcome.request);
    if (found == sequences_.end() || found->second.match == 0) continue;
    // Of the draft after the first wrong one nothing is known.
    const std::int64_t seen = std::min(outcome.verified, outcome.accepted + 1);
    for (std::int64_t k = 0; k < seen; ++k) {
      double& share = accepted_share(found->second.match, k);
      share += kLearningRate * ((k < outcome.accepted ? 1.0 : 0.0) - share);
      share = std::clamp(share, kLeastShare, 1 - kLeastShare);
    }
  }
}

void NgramProposer::forget(RequestId request) { sequences_.erase(request); }

}  // namespace tandem
