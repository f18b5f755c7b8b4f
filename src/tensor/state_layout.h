// What a model keeps per request, in bytes: all that `memory` needs to know of it.
#pragma once

#include <cstdint>

namespace tandem {

// exact: fp32 everywhere, one fixed order of every reduction (DESIGN.md, Numerics).
enum class Precision { kExact, kDefault };

// One request owns one recurrent state block, overwritten in place at every token, and one latent
// row a token, never changed once written.
struct StateLayout {
  std::int64_t state_bytes = 0;  // recurrent states and convolution windows of all KDA layers
  std::int64_t row_bytes = 0;    // latent rows of all MLA layers for one token
};

}  // namespace tandem
