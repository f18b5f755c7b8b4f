// Rules over bytes: the form that schemas, regular expressions and EBNF are brought into before
// they become automata.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/grammar/automaton.h"

namespace tandem::grammar {

// Index of an expression in its RuleBook.
using ExprId = std::int32_t;

// One node. Expressions form a tree that may share nodes; recursion goes through rules only.
struct Expr {
  enum class Kind {
    kLiteral,   // `bytes`
    kBytes,     // one byte out of `ranges`; none: matches nothing at all
    kSequence,  // all `children` in order
    kChoice,    // one of `children`; none: matches nothing at all
    kRepeat,    // children[0], min .. max times
    kCall,      // rule number `rule`
    kAutomaton,
    kGraph,  // a path through `edges` from node 0 to node `nodes - 1`
  };
  struct Edge {
    std::int32_t from;
    ExprId label;
    std::int32_t to;
  };

  Kind kind = Kind::kSequence;
  std::string bytes = {};
  std::vector<ByteRange> ranges = {};
  std::vector<ExprId> children = {};
  std::int64_t min = 0, max = 0;
  RuleId rule = 0;
  std::shared_ptr<const Automaton> automaton = nullptr;  // shared by every place that embeds it
  std::int32_t nodes = 0;
  std::vector<Edge> edges = {};
};

// Expressions and named rules under construction. Rule 0 is the root. Single owner.
class RuleBook {
 public:
  static constexpr std::int64_t kUnbounded = -1;
  // The most often that anything can be asked to repeat.
  static constexpr std::int64_t kMaxRepeat = 8'000'000;

  ExprId empty() { return sequence({}); }
  ExprId nothing() { return choice({}); }
  ExprId literal(std::string_view bytes);
  ExprId bytes(std::vector<ByteRange> ranges);
  ExprId sequence(std::vector<ExprId> children);
  ExprId choice(std::vector<ExprId> children);
  ExprId optional(ExprId child) { return repeat(child, 0, 1); }
  // 0 <= min <= max <= kMaxRepeat, or max = kUnbounded. Long counts are cut into blocks that become
  // rules of their own, so that a string of up to a million characters takes a few thousand states.
  ExprId repeat(ExprId child, std::int64_t min, std::int64_t max);
  // The same without rules of its own, each repetition spelt out: for automata that get combined.
  ExprId inline_repeat(ExprId child, std::int64_t min, std::int64_t max);
  ExprId call(RuleId rule);
  ExprId automaton(Automaton automaton);
  ExprId graph(std::int32_t nodes, std::vector<Expr::Edge> edges);

  RuleId declare(std::string name);
  void define(RuleId rule, ExprId body);

  const Expr& expr(ExprId id) const { return exprs_[static_cast<std::size_t>(id)]; }
  RuleId rule_count() const { return static_cast<RuleId>(rules_.size()); }
  const std::string& name(RuleId rule) const { return rules_[static_cast<std::size_t>(rule)].name; }
  ExprId body(RuleId rule) const { return rules_[static_cast<std::size_t>(rule)].body; }

 private:
  struct Rule {
    std::string name;
    ExprId body = -1;
  };
  // A block of kBlock repetitions and one of fewer.
  struct Block {
    ExprId full, part;
  };
  ExprId add(Expr expr);
  Block block_of(ExprId child);

  std::vector<Expr> exprs_;
  std::vector<Rule> rules_;
  std::map<ExprId, Block> blocks_;
};

}  // namespace tandem::grammar
