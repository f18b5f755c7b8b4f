// The delta rule of one head in double, token by token and chunkwise: the same function twice.
#pragma once

#include <cstdint>

namespace tandem::reference {

// Tokens of one head. q is L2-normalised and scaled, k is L2-normalised.
struct DeltaRuleTokens {
  std::int64_t tokens = 0;
  std::int64_t d = 0;            // K = V
  const double* q = nullptr;     // [tokens, d]
  const double* k = nullptr;     // [tokens, d]
  const double* v = nullptr;     // [tokens, d]
  const double* g = nullptr;     // [tokens, d] log decay, <= 0
  const double* beta = nullptr;  // [tokens]
};

inline constexpr std::int64_t kDeltaRuleChunk = 16;

// state [d, d], key-major, is read and overwritten; o [tokens, d].
void delta_rule_recurrent(const DeltaRuleTokens& in, double* state, double* o);
// One chunk of any length through the WY representation.
void delta_rule_chunk(const DeltaRuleTokens& in, double* state, double* o);

}  // namespace tandem::reference
