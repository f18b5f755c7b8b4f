// The token ids that measurements feed a model.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/philox.h"

namespace tandem::measure {

// Random ids, or those of a text. A pure function of (sequence, position) once it is made;
// sequences have little in common, so that a batch reaches many experts.
class TokenSource {
 public:
  TokenSource(std::int64_t vocab_size, std::uint64_t seed) : vocab_size_(vocab_size), seed_(seed) {}
  // Each sequence reads on from a place of its own, around the end of `text`. At least one id.
  explicit TokenSource(std::vector<TokenId> text) : text_(std::move(text)) {}

  TokenId at(std::int64_t sequence, std::int64_t position) const {
    if (!text_.empty()) {
      const auto place = static_cast<std::uint64_t>(sequence * kSequenceStride + position);
      return text_[place % text_.size()];
    }
    const auto index =
        static_cast<std::uint64_t>(sequence) << 32 | static_cast<std::uint64_t>(position);
    return static_cast<TokenId>(philox_uniform(seed_, index) * static_cast<double>(vocab_size_));
  }

 private:
  static constexpr std::int64_t kSequenceStride = 7919;

  std::int64_t vocab_size_ = 0;
  std::uint64_t seed_ = 0;
  std::vector<TokenId> text_;
};

}  // namespace tandem::measure
