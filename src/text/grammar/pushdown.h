// The automata of all rules linked into one machine with calls and returns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "text/grammar/automaton.h"
#include "text/grammar/expression.h"

namespace tandem::grammar {

// States are numbered across all rules. From every state that is left an end can be reached, so a
// text that has not been refused so far can always be completed. Immutable and thread-safe.
class Pushdown {
 public:
  struct Call {
    StateId callee;  // first state of the rule called
    StateId resume;  // where the caller goes on
    bool tail;       // nothing but a return follows there: no need to come back
  };

  // Builds and links the automata of `book`. Refuses a grammar that matches no text at all, and one
  // in which a rule calls itself before it has read anything (left recursion), naming the rule.
  static Result<Pushdown> link(const RuleBook& book, Budget* budget);

  StateId start() const { return start_; }
  std::size_t state_count() const { return states_.size(); }
  std::span<const Automaton::Edge> edges(StateId id) const {
    const State& state = at(id);
    return std::span(edges_).subspan(state.first_edge, state.edge_count);
  }
  std::span<const Call> calls(StateId id) const {
    const State& state = at(id);
    return std::span(calls_).subspan(state.first_call, state.call_count);
  }
  bool accepting(StateId id) const { return at(id).accepting; }

 private:
  struct State {
    std::uint32_t first_edge, edge_count, first_call, call_count;
    bool accepting;
  };
  const State& at(StateId id) const { return states_[static_cast<std::size_t>(id)]; }

  StateId start_ = 0;
  std::vector<State> states_;
  std::vector<Automaton::Edge> edges_;
  std::vector<Call> calls_;
};

}  // namespace tandem::grammar
