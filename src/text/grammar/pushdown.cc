#include "text/grammar/pushdown.h"

#include <algorithm>

#include "base/check.h"

namespace tandem::grammar {
namespace {

using Automata = std::vector<Automaton>;

Automaton::State& state_of(Automaton& automaton, StateId id) {
  return automaton.states[static_cast<std::size_t>(id)];
}

// Per state, whether an end can be reached if only the `usable` rules can be called.
std::vector<bool> can_end(const Automaton& automaton, const std::vector<bool>& usable) {
  const std::size_t count = automaton.states.size();
  std::vector<std::vector<StateId>> sources(count);
  std::vector<StateId> work;
  std::vector<bool> marked(count, false);
  for (std::size_t i = 0; i < count; ++i) {
    const Automaton::State& state = automaton.states[i];
    const auto id = static_cast<StateId>(i);
    for (const auto& edge : state.edges)
      sources[static_cast<std::size_t>(edge.target)].push_back(id);
    for (const auto& call : state.calls) {
      if (usable[static_cast<std::size_t>(call.rule)]) {
        sources[static_cast<std::size_t>(call.target)].push_back(id);
      }
    }
    if (state.accepting) {
      marked[i] = true;
      work.push_back(id);
    }
  }
  while (!work.empty()) {
    const auto id = static_cast<std::size_t>(work.back());
    work.pop_back();
    for (const StateId source : sources[id]) {
      if (marked[static_cast<std::size_t>(source)]) continue;
      marked[static_cast<std::size_t>(source)] = true;
      work.push_back(source);
    }
  }
  return marked;
}

// Removes everything from which no end can be reached. Rules that never end lose all their states.
Result<void> remove_dead_ends(Automata* automata, Budget* budget) {
  std::vector<bool> usable(automata->size(), false);
  std::vector<std::vector<bool>> alive(automata->size());
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t rule = 0; rule < automata->size(); ++rule) {
      const Automaton& automaton = (*automata)[rule];
      if (!budget->spend(static_cast<std::int64_t>(automaton.states.size()))) {
        return Budget::exceeded();
      }
      alive[rule] = can_end(automaton, usable);
      if (!usable[rule] && !alive[rule].empty() && alive[rule][0]) {
        usable[rule] = true;
        changed = true;
      }
    }
  }
  for (std::size_t rule = 0; rule < automata->size(); ++rule) {
    Automaton& automaton = (*automata)[rule];
    if (!usable[rule]) {
      automaton.states.clear();
      continue;
    }
    const auto dead = [&](StateId id) { return !alive[rule][static_cast<std::size_t>(id)]; };
    for (auto& state : automaton.states) {
      std::erase_if(state.edges, [&](const auto& edge) { return dead(edge.target); });
      std::erase_if(state.calls, [&](const auto& call) {
        return dead(call.target) || !usable[static_cast<std::size_t>(call.rule)];
      });
    }
  }
  return {};
}

// The states that a rule can be in before it has read anything.
std::vector<StateId> first_states(const Automaton& automaton, const std::vector<bool>& nullable) {
  std::vector<StateId> order;
  std::vector<bool> seen(automaton.states.size(), false);
  const auto visit = [&](StateId id) {
    if (seen[static_cast<std::size_t>(id)]) return;
    seen[static_cast<std::size_t>(id)] = true;
    order.push_back(id);
  };
  if (!automaton.states.empty()) visit(0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const auto& call : automaton.states[static_cast<std::size_t>(order[i])].calls) {
      if (nullable[static_cast<std::size_t>(call.rule)]) visit(call.target);
    }
  }
  return order;
}

std::vector<bool> nullable_rules(const Automata& automata) {
  std::vector<bool> nullable(automata.size(), false);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t rule = 0; rule < automata.size(); ++rule) {
      if (nullable[rule]) continue;
      const auto states = first_states(automata[rule], nullable);
      nullable[rule] = std::any_of(states.begin(), states.end(), [&](StateId id) {
        return automata[rule].states[static_cast<std::size_t>(id)].accepting;
      });
      changed |= nullable[rule];
    }
  }
  return nullable;
}

// A rule that can call itself without having read anything, or -1.
RuleId left_recursive_rule(const Automata& automata) {
  const std::vector<bool> nullable = nullable_rules(automata);
  std::vector<std::vector<RuleId>> first_calls(automata.size());
  for (std::size_t rule = 0; rule < automata.size(); ++rule) {
    for (const StateId id : first_states(automata[rule], nullable)) {
      for (const auto& call : automata[rule].states[static_cast<std::size_t>(id)].calls) {
        first_calls[rule].push_back(call.rule);
      }
    }
  }
  // Depth-first search for a cycle, without recursion: chains of rules can be long.
  enum class Mark : std::uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(automata.size(), Mark::kNew);
  for (std::size_t root = 0; root < automata.size(); ++root) {
    if (marks[root] != Mark::kNew) continue;
    std::vector<std::pair<std::size_t, std::size_t>> path{{root, 0}};  // rule, calls followed
    marks[root] = Mark::kOpen;
    while (!path.empty()) {
      auto& [rule, followed] = path.back();
      if (followed == first_calls[rule].size()) {
        marks[rule] = Mark::kDone;
        path.pop_back();
        continue;
      }
      const auto next = static_cast<std::size_t>(first_calls[rule][followed++]);
      if (marks[next] == Mark::kOpen) return static_cast<RuleId>(next);
      if (marks[next] == Mark::kDone) continue;
      marks[next] = Mark::kOpen;
      path.push_back({next, 0});
    }
  }
  return -1;
}

}  // namespace

Result<Pushdown> Pushdown::link(const RuleBook& book, Budget* budget) {
  Automata automata;
  for (RuleId rule = 0; rule < book.rule_count(); ++rule) {
    CHECK(book.body(rule) >= 0, "rule {} has no body", book.name(rule));
    automata.push_back(TRY(build_automaton(book, book.body(rule), budget)));
  }
  TRY(remove_dead_ends(&automata, budget));
  if (automata[0].states.empty()) return invalid("no text can match");
  const RuleId loop = left_recursive_rule(automata);
  if (loop >= 0) {
    return invalid("\"{}\" leads back to itself before anything was read", book.name(loop));
  }

  Pushdown out;
  std::vector<StateId> offsets;
  StateId total = 0;
  for (const Automaton& automaton : automata) {
    offsets.push_back(total);
    total += static_cast<StateId>(automaton.states.size());
  }
  for (std::size_t rule = 0; rule < automata.size(); ++rule) {
    Automaton& automaton = automata[rule];
    for (const Automaton::State& state : automaton.states) {
      out.states_.push_back({static_cast<std::uint32_t>(out.edges_.size()),
                             static_cast<std::uint32_t>(state.edges.size()),
                             static_cast<std::uint32_t>(out.calls_.size()),
                             static_cast<std::uint32_t>(state.calls.size()), state.accepting});
      for (const auto& edge : state.edges) {
        out.edges_.push_back({edge.bytes, edge.target + offsets[rule]});
      }
      for (const auto& call : state.calls) {
        const Automaton::State& after = state_of(automaton, call.target);
        out.calls_.push_back({offsets[static_cast<std::size_t>(call.rule)],
                              call.target + offsets[rule],
                              after.accepting && after.edges.empty() && after.calls.empty()});
      }
    }
  }
  return out;
}

}  // namespace tandem::grammar
