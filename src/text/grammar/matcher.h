// Where one generated text stands in its grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "text/grammar/grammar.h"
#include "text/grammar/stack_machine.h"

namespace tandem {

// The state of one request. Copies are independent and share the grammar. Single owner.
//
// A token that is allowed can always be continued to a complete text: only a bound on tokens leaves
// one incomplete.
class GrammarMatcher {
 public:
  // Tokens that rollback() can undo.
  static constexpr std::size_t kMaxRollback = 64;

  explicit GrammarMatcher(Grammar::Pointer grammar);
  GrammarMatcher(const GrammarMatcher& other);
  GrammarMatcher& operator=(const GrammarMatcher& other);
  GrammarMatcher(GrammarMatcher&&) = default;
  GrammarMatcher& operator=(GrammarMatcher&&) = default;

  // Goes on by one token. False, and nothing changes, if it cannot follow.
  bool accept(TokenId token);
  // Undoes the last `tokens` accepted tokens, of which there are at least so many and at most
  // kMaxRollback since the beginning or the last rollback.
  void rollback(std::size_t tokens);
  std::size_t rollback_limit() const { return history_.size(); }

  // 64-bit words of a mask: bit i % 64 of word i / 64 belongs to token i.
  std::size_t mask_words() const { return (grammar_->vocabulary().size() + 63) / 64; }
  // Sets the bits of exactly the tokens that accept() would take now, clears the others. `mask` has
  // mask_words() words. Stop ids are set where the text may end.
  void fill_mask(std::span<std::uint64_t> mask);

  // fill_mask() would take microseconds: no state's mask has to be made first.
  bool mask_is_known() const;

  // The text is complete as it is; more may follow.
  bool can_stop() const { return !finished_ && machine_.at_end(current_); }
  // A stop id was accepted, after which nothing can follow.
  bool is_finished() const { return finished_; }
  // The bytes that have to come next, at most `max_bytes`; empty where there is a choice.
  std::string forced(std::size_t max_bytes);

 private:
  void add_open_tokens(const grammar::StateMask& state, std::span<std::uint64_t> mask);
  void forget_unused_sets();

  Grammar::Pointer grammar_;
  grammar::StackMachine machine_;
  grammar::SetId current_;
  std::vector<grammar::SetId> history_;  // before each of the last tokens, oldest first
  bool finished_ = false;
  std::vector<grammar::SetId> path_;  // scratch of add_open_tokens
};

}  // namespace tandem
