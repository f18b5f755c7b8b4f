// Grammars that generated text has to follow, compiled for one vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/grammar/budget.h"
#include "text/grammar/pushdown.h"
#include "text/grammar/state_mask.h"
#include "text/grammar/vocabulary.h"

namespace tandem {

// A compiled grammar, shared by every request that uses it and by its caches (hence shared_ptr).
// Thread-safe. What each kind takes, and how it reads it, is written in docs/structured-output.md.
//
// Compiling may take a second or two at the limits: do it off the step loop. Every error is
// kInvalidArgument; its `field` says where: for schemas the path of the keyword at fault as a URI
// fragment ("#/properties/age/minimum"), for the others "line:column" or nothing. The message
// starts with the field.
class Grammar {
 public:
  using Pointer = std::shared_ptr<const Grammar>;
  using Vocabulary = std::shared_ptr<const GrammarVocabulary>;

  // Any JSON object.
  static Pointer json_object(const Vocabulary& vocabulary);
  // A JSON value that is valid under a JSON schema, given as text.
  static Result<Pointer> json_schema(std::string_view schema, const Vocabulary& vocabulary,
                                     const GrammarLimits& limits = {});
  // Text that a regular expression (ECMA-262 syntax) matches as a whole.
  static Result<Pointer> regex(std::string_view pattern, const Vocabulary& vocabulary,
                               const GrammarLimits& limits = {});
  // Text of the rule "root" of a grammar in GBNF notation.
  static Result<Pointer> ebnf(std::string_view text, const Vocabulary& vocabulary,
                              const GrammarLimits& limits = {});

  const GrammarVocabulary& vocabulary() const { return *vocabulary_; }
  const grammar::Pushdown& pushdown() const { return pushdown_; }
  // The tokens that may follow in a state: looked up, or made now (a few milliseconds where most of
  // a large vocabulary is allowed) and kept while kMaskBytes last.
  std::shared_ptr<const grammar::StateMask> state_mask(grammar::StateId state) const;
  // Whether it would only be looked up.
  bool has_state_mask(grammar::StateId state) const;

  static constexpr std::size_t kMaskBytes = std::size_t{16} << 20;

  Grammar(grammar::Pushdown pushdown, Vocabulary vocabulary);
  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;

 private:
  const grammar::Pushdown pushdown_;
  const Vocabulary vocabulary_;
  mutable std::mutex mutex_;  // guards the two below
  mutable std::vector<std::shared_ptr<const grammar::StateMask>>
      masks_;  // by state; shared with readers
  mutable std::size_t mask_bytes_ = 0;
};

}  // namespace tandem
