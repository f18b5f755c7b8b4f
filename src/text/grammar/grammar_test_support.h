// Vocabularies for the tests of grammars.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/matcher.h"

namespace tandem::grammar_testing {

// One token per byte, and token 256, which stops.
inline std::shared_ptr<const GrammarVocabulary> byte_vocabulary() {
  static const auto vocabulary = [] {
    static std::string bytes(256, '\0');
    std::vector<std::string_view> tokens;
    for (std::size_t i = 0; i < 256; ++i) {
      bytes[i] = static_cast<char>(i);
      tokens.push_back(std::string_view(bytes).substr(i, 1));
    }
    tokens.emplace_back();
    return GrammarVocabulary::create(tokens, std::vector<TokenId>{256});
  }();
  return vocabulary;
}

// Whether the grammar, compiled for byte_vocabulary(), takes the text as a whole.
inline bool matches(const Grammar::Pointer& grammar, std::string_view text) {
  GrammarMatcher matcher(grammar);
  for (const char c : text) {
    if (!matcher.accept(static_cast<unsigned char>(c))) return false;
  }
  return matcher.can_stop();
}

}  // namespace tandem::grammar_testing
