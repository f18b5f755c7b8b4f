// What the fuzz targets of the chat formats share: tokenizers, and choices made by an input's
// bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat.h"

namespace tandem {

// One token a byte (ids 0..255), one a pair of bytes (id 256 + 256 * first + second), then the
// family's special names: a text can be cut into tokens at any place.
inline constexpr TokenId kFirstPair = 256;
inline constexpr TokenId kFirstSpecial = kFirstPair + 256 * 256;
std::unique_ptr<Tokenizer> make_pair_tokenizer(ChatFamily family);

// The special names of a family, those that structure chats among them.
std::vector<std::string> special_names(ChatFamily family);

// Reads an input from its front; zeros once it is used up.
class InputBytes {
 public:
  InputBytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }
  std::uint8_t next() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  // 0 .. count-1
  std::size_t below(std::size_t count) { return next() % count; }
  bool flip() { return below(2) == 1; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

}  // namespace tandem
