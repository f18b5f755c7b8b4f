// What a request may say next, beyond the model's own mind: a grammar, as the sampler sees it.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/status.h"

namespace tandem {

// The state of one request. Used by one thread at a time.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // Bit i % 64 of word i / 64 belongs to token i; at least as many bits as the vocabulary has ids.
  // Valid until accept(). An error ends the request.
  virtual Result<std::span<const std::uint64_t>> allowed() = 0;
  // Goes on by a token that was allowed.
  virtual void accept(TokenId token) = 0;
};

}  // namespace tandem
