// Token ids -> text, as they come: never half a character.
#pragma once

#include <string>
#include <string_view>

#include "base/ids.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace tandem {

// One answer's tokens as a stream of whole characters. The concatenation of all feed() and flush()
// results is Tokenizer::decode of all ids. Single owner; `tokenizer` must outlive it.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, SpecialText special = SpecialText::kSkip)
      : tokenizer_(tokenizer), special_(special) {}

  // The characters that `id` completes.
  std::string feed(TokenId id) {
    if (special_ == SpecialText::kSkip && tokenizer_.is_special(id)) return {};
    return stream_.feed(tokenizer_.token_bytes(id));
  }
  // End of the answer: U+FFFD if a character was cut off, else nothing.
  std::string flush() { return stream_.flush(); }

 private:
  const Tokenizer& tokenizer_;
  const SpecialText special_;
  Utf8Stream stream_;
};

}  // namespace tandem
