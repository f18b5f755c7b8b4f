#include "text/grammar/grammar.h"

#include <utility>

#include "base/check.h"
#include "text/grammar/ebnf.h"
#include "text/grammar/json_rules.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema_compiler.h"
#include "text/utf8.h"

namespace tandem {
namespace {

using grammar::Budget;
using grammar::RuleBook;

// Messages quote the source, so it must be text.
Result<void> check_source(std::string_view source, const GrammarLimits& limits) {
  if (source.size() > limits.source_bytes) {
    return invalid("the source has {} bytes, more than {}", source.size(), limits.source_bytes);
  }
  if (!is_valid_utf8(source)) return invalid("the source is not valid UTF-8");
  return {};
}

Result<Grammar::Pointer> link(const RuleBook& book, const Grammar::Vocabulary& vocabulary,
                              Budget* budget) {
  return std::make_shared<const Grammar>(TRY(grammar::Pushdown::link(book, budget)), vocabulary);
}

}  // namespace

Grammar::Grammar(grammar::Pushdown pushdown, Vocabulary vocabulary)
    : pushdown_(std::move(pushdown)),
      vocabulary_(std::move(vocabulary)),
      masks_(pushdown_.state_count()) {}

Grammar::Pointer Grammar::json_object(const Vocabulary& vocabulary) {
  auto out = json_schema(R"({"type":"object"})", vocabulary);
  CHECK(out.has_value(), "{}", out.error().message);
  return *std::move(out);
}

Result<Grammar::Pointer> Grammar::json_schema(std::string_view schema, const Vocabulary& vocabulary,
                                              const GrammarLimits& limits) {
  TRY(check_source(schema, limits));
  auto value = parse_json(schema);
  if (!value) return invalid("not JSON: {}", value.error().message);
  Budget budget(limits);
  RuleBook book;
  grammar::JsonRules rules(&book, &budget);
  TRY(grammar::SchemaCompiler(*value, &book, &rules, &budget).compile({&*value, "#"}));
  return link(book, vocabulary, &budget);
}

Result<Grammar::Pointer> Grammar::regex(std::string_view pattern, const Vocabulary& vocabulary,
                                        const GrammarLimits& limits) {
  TRY(check_source(pattern, limits));
  Budget budget(limits);
  RuleBook book;
  const grammar::RuleId root = book.declare("root");
  book.define(root, book.automaton(TRY(grammar::regex_automaton(
                        pattern, grammar::RegexMatch::kWhole, grammar::Spelling::kText, &budget))));
  return link(book, vocabulary, &budget);
}

Result<Grammar::Pointer> Grammar::ebnf(std::string_view text, const Vocabulary& vocabulary,
                                       const GrammarLimits& limits) {
  TRY(check_source(text, limits));
  Budget budget(limits);
  RuleBook book;
  TRY(grammar::parse_ebnf(text, &book));
  return link(book, vocabulary, &budget);
}

bool Grammar::has_state_mask(grammar::StateId state) const {
  const std::lock_guard lock(mutex_);
  return masks_[static_cast<std::size_t>(state)] != nullptr;
}

std::shared_ptr<const grammar::StateMask> Grammar::state_mask(grammar::StateId state) const {
  const auto at = static_cast<std::size_t>(state);
  {
    const std::lock_guard lock(mutex_);
    if (masks_[at]) return masks_[at];
  }
  auto made = std::make_shared<const grammar::StateMask>(
      grammar::make_state_mask(pushdown_, state, *vocabulary_));
  const std::lock_guard lock(mutex_);
  if (!masks_[at] && mask_bytes_ + made->bytes() <= kMaskBytes) {
    masks_[at] = made;
    mask_bytes_ += made->bytes();
  }
  return made;
}

}  // namespace tandem
