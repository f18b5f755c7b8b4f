// Cutting text into pre-tokens, the pieces within which byte pairs are joined.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// The Kimi pre-tokeniser (K2, Kimi Linear, K3): an ordered alternation, compiled once with PCRE2.
// Const methods are thread-safe.
class PreTokenizer {
 public:
  PreTokenizer();
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;

  // Appends the end offset of every pre-token of `text`, which must be valid UTF-8. The pieces
  // follow each other without gaps. Call it with chunks of cut_text(): time is not bounded linearly
  // on runs longer than those.
  void split(std::string_view text, std::vector<std::size_t>* ends) const;

 private:
  struct Compiled;
  std::unique_ptr<const Compiled> compiled_;
};

// Cuts valid UTF-8 as the Kimi tokenizer does before anything else: every 400,000 code points, then
// wherever a run of consecutive whitespace or consecutive non-whitespace (Python's isspace) would
// exceed 25,000 code points. Chunks are encoded independently. The views point into `text`.
std::vector<std::string_view> cut_text(std::string_view text);

}  // namespace tandem
