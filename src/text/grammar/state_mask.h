// Which tokens may follow in one state of a grammar, whatever stack lies below it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "text/grammar/pushdown.h"
#include "text/grammar/vocabulary.h"

namespace tandem::grammar {

// Immutable. Tokens that are neither allowed nor open cannot follow.
struct StateMask {
  // A token in which the rule ends: what follows in it depends on the caller.
  struct Open {
    std::int32_t rank;
    std::uint16_t shared;  // bytes in common with the open token before it
  };
  // The allowed tokens: a bit per id, or the ids themselves where they are few.
  std::vector<std::uint64_t> bits;
  std::vector<TokenId> ids;
  std::vector<Open> open;  // by ascending rank

  std::size_t bytes() const {
    return bits.size() * sizeof(bits[0]) + ids.size() * sizeof(ids[0]) +
           open.size() * sizeof(open[0]);
  }
  // Sets the bits of the allowed tokens.
  void add_to(std::span<std::uint64_t> mask) const;
};

// Walks the whole prefix tree as far as the state lets it.
StateMask make_state_mask(const Pushdown& pushdown, StateId state,
                          const GrammarVocabulary& vocabulary);

inline void set_bit(std::span<std::uint64_t> mask, TokenId id) {
  mask[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << (id % 64);
}
inline bool has_bit(std::span<const std::uint64_t> mask, TokenId id) {
  return mask[static_cast<std::size_t>(id) / 64] >> (id % 64) & 1;
}

}  // namespace tandem::grammar
