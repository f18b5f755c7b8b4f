// Text as a model without any idea would write it.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "text/grammar/matcher.h"
#include "text/grammar/state_mask.h"

namespace tandem::grammar_testing {

// Chooses uniformly among the allowed tokens, and with some bias the end. After `patience` tokens
// it takes quotes, else closing brackets, else an
// "x", which a pattern of random_schema() may be waiting for. nullopt after 20 times as many
// tokens; `dead_ends` counts masks that are empty.
inline std::optional<std::string> random_walk(GrammarMatcher& matcher,
                                              const GrammarVocabulary& vocabulary,
                                              std::mt19937& random, int patience, int* dead_ends) {
  std::string text;
  std::vector<std::uint64_t> mask(matcher.mask_words());
  for (int step = 0; step < 20 * patience; ++step) {
    matcher.fill_mask(mask);
    std::vector<TokenId> allowed;
    for (TokenId id = 0; static_cast<std::size_t>(id) < vocabulary.size(); ++id) {
      if (grammar::has_bit(mask, id)) allowed.push_back(id);
    }
    if (allowed.empty()) {
      ++*dead_ends;
      return std::nullopt;
    }
    TokenId chosen = allowed[random() % allowed.size()];
    const bool is_late = step > patience;
    int best = 0;
    for (const TokenId id : allowed) {
      const std::string_view bytes = vocabulary.bytes(id);
      const int rank = bytes == "\"" ? 3 : bytes == "}" || bytes == "]" ? 2 : bytes == "x" ? 1 : 0;
      if (is_late && rank > best) {
        best = rank;
        chosen = id;
      }
    }
    const bool wants_end = is_late || random() % 4 == 0;
    if (wants_end && matcher.can_stop()) chosen = vocabulary.stop_ids()[0];
    const std::string_view bytes = vocabulary.bytes(chosen);
    const bool stops = vocabulary.is_stop(chosen);
    if (!matcher.accept(chosen)) return std::nullopt;
    if (stops) return text;
    text += bytes;
  }
  return std::nullopt;
}

}  // namespace tandem::grammar_testing
