#include "text/grammar/json_rules.h"

#include <algorithm>

#include "text/grammar/code_points.h"
#include "text/grammar/json_number.h"
#include "text/json_text.h"

namespace tandem::grammar {
namespace {

std::string quoted(std::string_view text) { return "\"" + escape_json(text) + "\""; }

}  // namespace

Result<ExprId> JsonRules::other_key(std::span<const std::string> known) {
  const CodePointSet plain = CodePointSet({{0, 0x1F}, {U'"', U'"'}, {U'\\', U'\\'}}).complement();
  const ExprId key = book_->sequence(
      {book_->literal("\""),
       book_->repeat(character(book_, plain, Spelling::kText), 0, RuleBook::kUnbounded),
       book_->literal("\"")});
  if (known.empty()) return rule("key", [&]() -> Result<ExprId> { return key; });
  std::vector<ExprId> taken;
  for (const std::string& name : known) taken.push_back(book_->literal(quoted(name)));
  const Automaton all = TRY(build_automaton(*book_, key, budget_));
  const Automaton not_these =
      TRY(build_automaton(*book_, book_->choice(std::move(taken)), budget_));
  return book_->automaton(TRY(combine(all, not_these, Combine::kFirstNotSecond, budget_)));
}

Result<ExprId> JsonRules::object(std::span<const Member> members,
                                 std::span<const std::string> known, std::optional<ExprId> others) {
  // Nodes of member i: nothing was written yet; something was; the member comes next.
  const auto fresh = [](std::size_t i) { return static_cast<std::int32_t>(3 * i); };
  const auto begun = [&](std::size_t i) { return fresh(i) + 1; };
  const auto next = [&](std::size_t i) { return fresh(i) + 2; };
  const std::size_t count = members.size();
  const std::int32_t end = fresh(count + 1);
  std::vector<Expr::Edge> edges;
  for (std::size_t i = 0; i < count; ++i) {
    const Member& m = members[i];
    edges.push_back({fresh(i), book_->empty(), next(i)});
    edges.push_back({begun(i), comma(), next(i)});
    edges.push_back({next(i), member(book_->literal(quoted(m.key)), m.value), begun(i + 1)});
    if (m.required) continue;
    edges.push_back({fresh(i), book_->empty(), fresh(i + 1)});
    edges.push_back({begun(i), book_->empty(), begun(i + 1)});
  }
  if (others) {
    edges.push_back({fresh(count), book_->empty(), next(count)});
    edges.push_back({begun(count), comma(), next(count)});
    edges.push_back({next(count), member(TRY(other_key(known)), *others), begun(count)});
  }
  edges.push_back({fresh(count), book_->literal("}"), end});
  edges.push_back({begun(count), closing("}"), end});
  return book_->sequence({opening("{"), book_->graph(end + 1, std::move(edges))});
}

ExprId JsonRules::array(std::span<const ExprId> first, std::optional<ExprId> others,
                        std::int64_t min, std::int64_t max) {
  const bool unbounded = max == RuleBook::kUnbounded;
  const auto given = static_cast<std::int64_t>(first.size());
  const std::int64_t listed = unbounded ? given : std::min(given, max);
  const auto end = static_cast<std::int32_t>(listed + 1);
  std::vector<Expr::Edge> edges;
  const auto may_end = [&](std::int64_t items) {
    if (items < min) return;
    edges.push_back(
        {static_cast<std::int32_t>(items), items == 0 ? book_->literal("]") : closing("]"), end});
  };
  for (std::int64_t i = 0; i < listed; ++i) {
    const auto from = static_cast<std::int32_t>(i);
    const ExprId item = first[static_cast<std::size_t>(i)];
    may_end(i);
    edges.push_back({from, i == 0 ? item : book_->sequence({comma(), item}), from + 1});
  }
  may_end(listed);
  if (others && (unbounded || max > listed)) {
    // At least one more; the first item of all has no comma.
    const std::int64_t least = std::max<std::int64_t>(min - listed, 1) - 1;
    const std::int64_t most = unbounded ? RuleBook::kUnbounded : max - listed - 1;
    const ExprId more = book_->sequence({comma(), *others});
    const bool possible = unbounded || least <= most;
    if (possible) {
      edges.push_back({static_cast<std::int32_t>(listed),
                       book_->sequence({listed == 0 ? *others : more,
                                        book_->repeat(more, least, most), closing("]")}),
                       end});
    }
  }
  return book_->sequence({opening("["), book_->graph(end + 1, std::move(edges))});
}

ExprId JsonRules::string(std::int64_t min, std::int64_t max) {
  const std::string name = fmt::format("string {} to {}", min, max);
  return *rule(name, [&]() -> Result<ExprId> {
    if (!character_) character_ = any_json_character(book_);
    return book_->sequence(
        {book_->literal("\""), book_->repeat(*character_, min, max), book_->literal("\"")});
  });
}

ExprId JsonRules::string(Automaton inside) {
  return book_->sequence(
      {book_->literal("\""), book_->automaton(std::move(inside)), book_->literal("\"")});
}

ExprId JsonRules::text(std::int64_t min, std::int64_t max) {
  return *rule(fmt::format("text {} to {}", min, max), [&]() -> Result<ExprId> {
    if (!plain_character_) {
      plain_character_ = character(book_, CodePointSet::all(), Spelling::kText);
    }
    return book_->repeat(*plain_character_, min, max);
  });
}

ExprId JsonRules::boolean() {
  return book_->choice({book_->literal("true"), book_->literal("false")});
}

Result<ExprId> JsonRules::any_object(int depth) {
  return rule(fmt::format("object {}", depth),
              [&]() -> Result<ExprId> { return object({}, {}, TRY(value(depth - 1))); });
}

Result<ExprId> JsonRules::any_array(int depth) {
  return rule(fmt::format("array {}", depth), [&]() -> Result<ExprId> {
    return array({}, TRY(value(depth - 1)), 0, RuleBook::kUnbounded);
  });
}

Result<ExprId> JsonRules::value(int depth) {
  return rule(fmt::format("value {}", depth), [&]() -> Result<ExprId> {
    const ExprId number =
        TRY(rule("number", [&]() { return number_expression(book_, {}, budget_); }));
    std::vector<ExprId> choices{string(0, RuleBook::kUnbounded), number, boolean(),
                                book_->literal("null")};
    if (depth > 0) {
      choices.push_back(TRY(any_object(depth)));
      choices.push_back(TRY(any_array(depth)));
    }
    return book_->choice(std::move(choices));
  });
}

}  // namespace tandem::grammar
