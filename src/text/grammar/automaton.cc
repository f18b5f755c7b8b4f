#include "text/grammar/automaton.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/check.h"
#include "text/grammar/expression.h"

namespace tandem::grammar {
namespace {

// Thompson's construction: an expression between two states, with moves that read nothing.
struct Nfa {
  struct State {
    std::vector<StateId> moves;
    std::vector<Automaton::Edge> edges;
    std::vector<Automaton::Call> calls;
  };
  std::vector<State> states;

  StateId add() {
    states.emplace_back();
    return static_cast<StateId>(states.size() - 1);
  }
  State& at(StateId id) { return states[static_cast<std::size_t>(id)]; }
};

class NfaBuilder {
 public:
  NfaBuilder(const RuleBook& book, Budget* budget) : book_(book), budget_(budget) {}

  // The expression may only leave `from` and enter `to`. False when the budget is spent.
  bool build(ExprId id, StateId from, StateId to) {
    if (!budget_->spend(1)) return false;
    const Expr& expr = book_.expr(id);
    switch (expr.kind) {
      case Expr::Kind::kLiteral:
        return build_literal(expr, from, to);
      case Expr::Kind::kBytes:
        for (const ByteRange& range : expr.ranges) nfa.at(from).edges.push_back({range, to});
        return budget_->spend(static_cast<std::int64_t>(expr.ranges.size()));
      case Expr::Kind::kSequence:
        return build_sequence(expr, from, to);
      case Expr::Kind::kChoice:
        return std::all_of(expr.children.begin(), expr.children.end(),
                           [&](ExprId child) { return build(child, from, to); });
      case Expr::Kind::kRepeat:
        return build_repeat(expr, from, to);
      case Expr::Kind::kCall:
        nfa.at(from).calls.push_back({expr.rule, to});
        return true;
      case Expr::Kind::kAutomaton:
        return build_copy(*expr.automaton, from, to);
      case Expr::Kind::kGraph:
        return build_graph(expr, from, to);
    }
    return false;
  }

  Nfa nfa;

 private:
  bool build_literal(const Expr& expr, StateId from, StateId to) {
    for (std::size_t i = 0; i < expr.bytes.size(); ++i) {
      const auto byte = static_cast<std::uint8_t>(expr.bytes[i]);
      const StateId next = i + 1 == expr.bytes.size() ? to : nfa.add();
      nfa.at(from).edges.push_back({{byte, byte}, next});
      from = next;
    }
    if (expr.bytes.empty()) nfa.at(from).moves.push_back(to);
    return budget_->spend(static_cast<std::int64_t>(expr.bytes.size()));
  }

  bool build_sequence(const Expr& expr, StateId from, StateId to) {
    for (const ExprId child : expr.children) {
      const StateId next = nfa.add();
      if (!build(child, from, next)) return false;
      from = next;
    }
    nfa.at(from).moves.push_back(to);
    return true;
  }

  bool build_repeat(const Expr& expr, StateId from, StateId to) {
    const ExprId child = expr.children[0];
    for (std::int64_t i = 0; i < expr.min; ++i) {
      const StateId next = nfa.add();
      if (!build(child, from, next)) return false;
      from = next;
    }
    if (expr.max == RuleBook::kUnbounded) {
      const StateId loop = nfa.add();
      nfa.at(from).moves.push_back(loop);
      nfa.at(loop).moves.push_back(to);
      return build(child, loop, loop);
    }
    for (std::int64_t i = expr.min; i < expr.max; ++i) {
      const StateId next = nfa.add();
      nfa.at(from).moves.push_back(to);
      if (!build(child, from, next)) return false;
      from = next;
    }
    nfa.at(from).moves.push_back(to);
    return true;
  }

  bool build_copy(const Automaton& automaton, StateId from, StateId to) {
    const auto first = static_cast<StateId>(nfa.states.size());
    for (std::size_t i = 0; i < automaton.states.size(); ++i) nfa.add();
    if (!automaton.states.empty()) nfa.at(from).moves.push_back(first);
    for (std::size_t i = 0; i < automaton.states.size(); ++i) {
      const Automaton::State& state = automaton.states[i];
      Nfa::State& copy = nfa.at(first + static_cast<StateId>(i));
      for (const auto& edge : state.edges) copy.edges.push_back({edge.bytes, first + edge.target});
      for (const auto& call : state.calls) copy.calls.push_back({call.rule, first + call.target});
      if (state.accepting) copy.moves.push_back(to);
    }
    return budget_->spend(static_cast<std::int64_t>(automaton.states.size()));
  }

  bool build_graph(const Expr& expr, StateId from, StateId to) {
    const auto first = static_cast<StateId>(nfa.states.size());
    for (std::int32_t i = 0; i < expr.nodes; ++i) nfa.add();
    nfa.at(from).moves.push_back(first);
    nfa.at(first + expr.nodes - 1).moves.push_back(to);
    return std::all_of(expr.edges.begin(), expr.edges.end(), [&](const Expr::Edge& edge) {
      return build(edge.label, first + edge.from, first + edge.to);
    });
  }

  const RuleBook& book_;
  Budget* budget_;
};

struct SubsetHash {
  std::size_t operator()(const std::vector<StateId>& subset) const {
    std::size_t hash = subset.size();
    for (const StateId id : subset) {
      hash = (hash ^ static_cast<std::size_t>(id)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

// Adds an edge above those that the state has.
void append_byte(std::uint8_t byte, StateId target, Automaton::State* state) {
  auto& edges = state->edges;
  if (!edges.empty() && edges.back().target == target && edges.back().bytes.last + 1 == byte) {
    edges.back().bytes.last = byte;
  } else {
    edges.push_back({{byte, byte}, target});
  }
}

// The subset construction, calls being letters beside the bytes.
class Determinizer {
 public:
  Determinizer(const Nfa& nfa, StateId accept, Budget* budget)
      : nfa_(nfa), accept_(accept), budget_(budget), seen_(nfa.states.size(), 0) {}

  Result<Automaton> run(StateId start) {
    if (!intern({start})) return Budget::exceeded();
    for (std::size_t i = 0; i < subsets_.size(); ++i) {
      if (!expand(i)) return Budget::exceeded();
    }
    return std::move(out_);
  }

 private:
  // The state of everything reachable from `seeds` without reading, or nothing.
  std::optional<StateId> intern(std::vector<StateId> seeds) {
    ++mark_;
    std::vector<StateId> subset;
    while (!seeds.empty()) {
      const StateId id = seeds.back();
      seeds.pop_back();
      std::uint32_t& seen = seen_[static_cast<std::size_t>(id)];
      if (seen == mark_) continue;
      seen = mark_;
      subset.push_back(id);
      const auto& moves = nfa_.states[static_cast<std::size_t>(id)].moves;
      seeds.insert(seeds.end(), moves.begin(), moves.end());
    }
    if (!budget_->spend(static_cast<std::int64_t>(subset.size()))) return std::nullopt;
    const bool accepting = std::find(subset.begin(), subset.end(), accept_) != subset.end();
    // Only states that read or end tell subsets apart.
    std::erase_if(subset, [&](StateId id) {
      const Nfa::State& state = nfa_.states[static_cast<std::size_t>(id)];
      return id != accept_ && state.edges.empty() && state.calls.empty();
    });
    std::sort(subset.begin(), subset.end());
    const auto next = static_cast<StateId>(out_.states.size());
    const auto [entry, is_new] = ids_.emplace(std::move(subset), next);
    if (is_new) {
      if (!budget_->spend_state()) return std::nullopt;
      subsets_.push_back(&entry->first);
      out_.states.push_back({.edges = {}, .calls = {}, .accepting = accepting});
    }
    return entry->second;
  }

  bool expand(std::size_t index) {
    std::vector<Automaton::Edge> edges;
    std::map<RuleId, std::vector<StateId>> calls;
    for (const StateId id : *subsets_[index]) {
      const Nfa::State& state = nfa_.states[static_cast<std::size_t>(id)];
      edges.insert(edges.end(), state.edges.begin(), state.edges.end());
      for (const auto& call : state.calls) calls[call.rule].push_back(call.target);
    }
    if (!expand_edges(index, edges)) return false;
    for (auto& [rule, targets] : calls) {
      const auto target = intern(std::move(targets));
      if (!target) return false;
      out_.states[index].calls.push_back({rule, *target});
    }
    return true;
  }

  // Cuts overlapping ranges into disjoint ones, each with all of its targets.
  bool expand_edges(std::size_t index, const std::vector<Automaton::Edge>& edges) {
    if (!budget_->spend(static_cast<std::int64_t>(edges.size()))) return false;
    std::vector<bool> cuts(257, false);
    for (const auto& edge : edges) {
      cuts[edge.bytes.first] = true;
      cuts[edge.bytes.last + std::size_t{1}] = true;
    }
    std::vector<std::vector<StateId>> targets(256);  // of the piece that starts at the byte
    for (const auto& edge : edges) {
      for (std::size_t b = edge.bytes.first; b <= edge.bytes.last; ++b) {
        if (cuts[b]) targets[b].push_back(edge.target);
      }
    }
    for (std::size_t b = 0; b < 256; ++b) {
      if (targets[b].empty()) continue;
      const auto target = intern(std::move(targets[b]));
      if (!target) return false;
      for (std::size_t byte = b; byte == b || !cuts[byte]; ++byte) {
        append_byte(static_cast<std::uint8_t>(byte), *target, &out_.states[index]);
      }
    }
    return true;
  }

  const Nfa& nfa_;
  StateId accept_;
  Budget* budget_;
  std::vector<std::uint32_t> seen_;  // per state of the NFA: the last search that met it
  std::uint32_t mark_ = 0;
  std::unordered_map<std::vector<StateId>, StateId, SubsetHash> ids_;
  std::vector<const std::vector<StateId>*> subsets_;  // keys of ids_, in order of their states
  Automaton out_;
};

const Automaton::Edge* edge_for(const Automaton::State& state, std::size_t byte) {
  for (const auto& edge : state.edges) {
    if (byte <= edge.bytes.last) return byte >= edge.bytes.first ? &edge : nullptr;
  }
  return nullptr;
}

}  // namespace

Result<Automaton> build_automaton(const RuleBook& book, ExprId expr, Budget* budget) {
  NfaBuilder builder(book, budget);
  const StateId start = builder.nfa.add();
  const StateId accept = builder.nfa.add();
  if (!builder.build(expr, start, accept)) return Budget::exceeded();
  return Determinizer(builder.nfa, accept, budget).run(start);
}

Result<Automaton> combine(const Automaton& first, const Automaton& second, Combine how,
                          Budget* budget) {
  constexpr StateId kGone = -1;  // the second has no state left
  using Pair = std::pair<StateId, StateId>;
  Automaton out;
  std::map<Pair, StateId> ids;
  std::vector<Pair> pairs;
  const auto intern = [&](Pair pair) {
    const auto [entry, is_new] = ids.emplace(pair, static_cast<StateId>(pairs.size()));
    if (is_new) pairs.push_back(pair);
    return entry->second;
  };
  if (first.states.empty()) return out;
  intern({0, second.states.empty() ? kGone : 0});
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (!budget->spend_state()) return Budget::exceeded();
    const auto [a, b] = pairs[i];
    const Automaton::State& left = first.states[static_cast<std::size_t>(a)];
    const Automaton::State* right =
        b == kGone ? nullptr : &second.states[static_cast<std::size_t>(b)];
    CHECK(left.calls.empty() && (!right || right->calls.empty()), "an automaton with calls");
    Automaton::State state;
    const bool right_accepts = right && right->accepting;
    state.accepting = left.accepting && right_accepts == (how == Combine::kBoth);
    for (const auto& edge : left.edges) {
      for (std::size_t byte = edge.bytes.first; byte <= edge.bytes.last; ++byte) {
        const auto* right_edge = right ? edge_for(*right, byte) : nullptr;
        if (!right_edge && how == Combine::kBoth) continue;
        const StateId target = intern({edge.target, right_edge ? right_edge->target : kGone});
        append_byte(static_cast<std::uint8_t>(byte), target, &state);
      }
    }
    out.states.push_back(std::move(state));
  }
  return out;
}

}  // namespace tandem::grammar
