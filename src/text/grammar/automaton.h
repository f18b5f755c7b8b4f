// Automata over bytes with calls: one per rule of a grammar.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "text/grammar/budget.h"

namespace tandem::grammar {

// Index of a rule in its RuleBook.
using RuleId = std::int32_t;
// Index of a state in its automaton.
using StateId = std::int32_t;

// Bytes first .. last, both included.
struct ByteRange {
  std::uint8_t first, last;
  bool operator==(const ByteRange&) const = default;
};

// Deterministic in bytes: the ranges of a state are disjoint and ascending. A call runs another
// rule's automaton and goes on at `target`; whether to read a byte, to call or to stop is open.
struct Automaton {
  struct Edge {
    ByteRange bytes;
    StateId target;
  };
  struct Call {
    RuleId rule;
    StateId target;
  };
  struct State {
    std::vector<Edge> edges;
    std::vector<Call> calls;
    bool accepting = false;
  };
  std::vector<State> states;  // the first one is the start; none: matches nothing
};

class RuleBook;

// The automaton of an expression. Fails only when the budget is spent.
Result<Automaton> build_automaton(const RuleBook& book, std::int32_t expr, Budget* budget);

enum class Combine {
  kBoth,  // texts that both accept
  kFirstNotSecond
};

// Combines two automata without calls.
Result<Automaton> combine(const Automaton& first, const Automaton& second, Combine how,
                          Budget* budget);

}  // namespace tandem::grammar
