// JSON text as rules: what every schema is built from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/grammar/automaton.h"
#include "text/grammar/expression.h"

namespace tandem::grammar {

// Makes rules in a RuleBook, each once. Single owner.
//
// Text is compact but for one optional space after "{", "[", ":" and ",", and before "}" and "]"
// where something stands between the brackets.
class JsonRules {
 public:
  // Objects and arrays of a value that no schema describes nest at most so deep.
  static constexpr int kFreeDepth = 16;

  // Both must outlive this.
  JsonRules(RuleBook* book, Budget* budget) : book_(book), budget_(budget) {}

  struct Member {
    std::string key;
    ExprId value;
    bool required;
  };
  // The members in their order, those that are not required optional, and then any number of
  // members with other keys and values `others`, if there is one. Their keys have no escapes, so
  // that no key in `known` can be spelt in another way.
  Result<ExprId> object(std::span<const Member> members, std::span<const std::string> known,
                        std::optional<ExprId> others);
  // min .. max items: the first ones as given, any further ones `others`, if there is one. `max`
  // may be RuleBook::kUnbounded.
  ExprId array(std::span<const ExprId> first, std::optional<ExprId> others, std::int64_t min,
               std::int64_t max);
  // min .. max characters.
  ExprId string(std::int64_t min, std::int64_t max);
  // A string whose inside, as spelt in JSON, the automaton accepts.
  ExprId string(Automaton inside);
  // min .. max characters as they are, without quotes and escapes.
  ExprId text(std::int64_t min, std::int64_t max);
  ExprId boolean();
  // Any value whose objects and arrays nest at most `depth` deep.
  Result<ExprId> value(int depth = kFreeDepth);
  Result<ExprId> any_object(int depth = kFreeDepth);
  Result<ExprId> any_array(int depth = kFreeDepth);

  // `make` says what to call `name`; it is asked once.
  template <typename Make>
  Result<ExprId> rule(const std::string& name, Make&& make) {
    const auto known = rules_.find(name);
    if (known != rules_.end()) return book_->call(known->second);
    const RuleId id = book_->declare(name);
    rules_.emplace(name, id);
    book_->define(id, TRY(make()));
    return book_->call(id);
  }

 private:
  ExprId space() { return book_->optional(book_->literal(" ")); }
  ExprId comma() { return book_->sequence({book_->literal(","), space()}); }
  ExprId opening(std::string_view bracket) {
    return book_->sequence({book_->literal(bracket), space()});
  }
  ExprId closing(std::string_view bracket) {
    return book_->sequence({space(), book_->literal(bracket)});
  }
  ExprId member(ExprId key, ExprId value) {
    return book_->sequence({key, book_->literal(":"), space(), value});
  }
  Result<ExprId> other_key(std::span<const std::string> known);

  RuleBook* book_;
  Budget* budget_;
  std::map<std::string, RuleId> rules_;
  std::optional<ExprId> character_;        // of a JSON string
  std::optional<ExprId> plain_character_;  // of text
};

}  // namespace tandem::grammar
