#include "text/grammar/expression.h"

#include "base/check.h"

namespace tandem::grammar {
namespace {

constexpr std::int64_t kBlock = 128;

}  // namespace

ExprId RuleBook::add(Expr expr) {
  exprs_.push_back(std::move(expr));
  return static_cast<ExprId>(exprs_.size() - 1);
}

ExprId RuleBook::literal(std::string_view bytes) {
  return add({.kind = Expr::Kind::kLiteral, .bytes = std::string(bytes)});
}

ExprId RuleBook::bytes(std::vector<ByteRange> ranges) {
  return add({.kind = Expr::Kind::kBytes, .ranges = std::move(ranges)});
}

ExprId RuleBook::sequence(std::vector<ExprId> children) {
  return add({.kind = Expr::Kind::kSequence, .children = std::move(children)});
}

ExprId RuleBook::choice(std::vector<ExprId> children) {
  return add({.kind = Expr::Kind::kChoice, .children = std::move(children)});
}

ExprId RuleBook::call(RuleId rule) { return add({.kind = Expr::Kind::kCall, .rule = rule}); }

ExprId RuleBook::automaton(Automaton automaton) {
  return add({.kind = Expr::Kind::kAutomaton,
              .automaton = std::make_shared<const Automaton>(std::move(automaton))});
}

ExprId RuleBook::graph(std::int32_t nodes, std::vector<Expr::Edge> edges) {
  return add({.kind = Expr::Kind::kGraph, .nodes = nodes, .edges = std::move(edges)});
}

ExprId RuleBook::inline_repeat(ExprId child, std::int64_t min, std::int64_t max) {
  return add({.kind = Expr::Kind::kRepeat, .children = {child}, .min = min, .max = max});
}

RuleBook::Block RuleBook::block_of(ExprId child) {
  const auto known = blocks_.find(child);
  if (known != blocks_.end()) return known->second;
  const RuleId full = declare("block");
  define(full, inline_repeat(child, kBlock, kBlock));
  const RuleId part = declare("part of a block");
  define(part, inline_repeat(child, 0, kBlock - 1));
  return blocks_.emplace(child, Block{call(full), call(part)}).first->second;
}

ExprId RuleBook::repeat(ExprId child, std::int64_t min, std::int64_t max) {
  CHECK(min >= 0 && min <= kMaxRepeat && max <= kMaxRepeat && (max == kUnbounded || max >= min),
        "{} to {} times", min, max);
  if (min <= kBlock && max <= kBlock) return inline_repeat(child, min, max);

  const Block block = block_of(child);
  std::vector<ExprId> parts(static_cast<std::size_t>(min / kBlock), block.full);
  parts.push_back(inline_repeat(child, min % kBlock, min % kBlock));
  if (max == kUnbounded) {
    parts.push_back(inline_repeat(child, 0, kUnbounded));
    return sequence(std::move(parts));
  }
  // Whole blocks, then fewer than a block, or what the last one lacks.
  const auto whole = static_cast<std::int32_t>((max - min) / kBlock);
  const std::int32_t end = whole + 1;
  std::vector<Expr::Edge> edges;
  for (std::int32_t i = 0; i < whole; ++i) {
    edges.push_back({i, block.full, i + 1});
    edges.push_back({i, block.part, end});
  }
  edges.push_back({whole, inline_repeat(child, 0, (max - min) % kBlock), end});
  parts.push_back(graph(end + 1, std::move(edges)));
  return sequence(std::move(parts));
}

RuleId RuleBook::declare(std::string name) {
  rules_.push_back({std::move(name)});
  return static_cast<RuleId>(rules_.size() - 1);
}

void RuleBook::define(RuleId rule, ExprId body) {
  rules_[static_cast<std::size_t>(rule)].body = body;
}

}  // namespace tandem::grammar
