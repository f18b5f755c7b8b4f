#include "text/grammar/state_mask.h"

#include <algorithm>

#include "text/grammar/stack_machine.h"

namespace tandem::grammar {
namespace {

// Collects open tokens and what neighbours have in common.
class OpenList {
 public:
  OpenList(const GrammarVocabulary& vocabulary, std::vector<StateMask::Open>* out)
      : vocabulary_(vocabulary), out_(out) {}

  void add(std::int32_t first, std::int32_t end) {
    for (std::int32_t rank = first; rank < end; ++rank) {
      std::uint16_t shared = out_->empty() ? std::uint16_t{0} : std::uint16_t{65535};
      for (std::int32_t r = out_->empty() ? rank : out_->back().rank + 1; r <= rank; ++r) {
        shared = std::min(shared, vocabulary_.shared_bytes(static_cast<std::size_t>(r)));
      }
      out_->push_back({rank, shared});
    }
  }

 private:
  const GrammarVocabulary& vocabulary_;
  std::vector<StateMask::Open>* out_;
};

void pack(const std::vector<TokenId>& allowed, std::size_t vocab_size, StateMask* mask) {
  const std::size_t words = (vocab_size + 63) / 64;
  if (allowed.size() <= words) {
    mask->ids = allowed;
    return;
  }
  mask->bits.assign(words, 0);
  for (const TokenId id : allowed) set_bit(mask->bits, id);
}

}  // namespace

void StateMask::add_to(std::span<std::uint64_t> mask) const {
  for (std::size_t i = 0; i < bits.size(); ++i) mask[i] |= bits[i];
  for (const TokenId id : ids) set_bit(mask, id);
}

StateMask make_state_mask(const Pushdown& pushdown, StateId state,
                          const GrammarVocabulary& vocabulary) {
  StateMask mask;
  OpenList open(vocabulary, &mask.open);
  StackMachine machine(pushdown);
  const auto nodes = vocabulary.nodes();
  const auto tokens = vocabulary.tokens();
  // Along the path from the root, by depth: the set reached, and whether the rule could end on the
  // way to it or there, so that longer tokens may go on in the caller.
  std::vector<SetId> sets(vocabulary.longest_token() + 1);
  std::vector<bool> ended(vocabulary.longest_token() + 1, false);
  sets[0] = machine.only(state);
  std::vector<TokenId> allowed;
  for (std::size_t i = 0; i < nodes.size();) {
    const auto& node = nodes[i];
    const std::size_t depth = node.depth;
    const SetId set = machine.step(sets[depth - 1], node.byte);
    if (set == kDead) {
      if (ended[depth - 1]) {
        const bool is_last = static_cast<std::size_t>(node.skip) == nodes.size();
        open.add(node.first_token, is_last
                                       ? static_cast<std::int32_t>(tokens.size())
                                       : nodes[static_cast<std::size_t>(node.skip)].first_token);
      }
      i = static_cast<std::size_t>(node.skip);
      continue;
    }
    sets[depth] = set;
    ended[depth] = ended[depth - 1] || machine.at_end(set);
    for (std::int32_t rank = node.first_token; rank < node.inner_token; ++rank) {
      allowed.push_back(tokens[static_cast<std::size_t>(rank)]);
    }
    ++i;
  }
  pack(allowed, vocabulary.size(), &mask);
  return mask;
}

}  // namespace tandem::grammar
