// The values of a random checkpoint: a pure function of seed, tensor name and element index, so
// that any part of any tensor can be made anywhere, in any order, by any device, with the same
// bits.
//
// Tensor NAME is made of 128-bit blocks, numbered from 0:
//   block(b) = philox(key = seed, counter = {lo32(b), hi32(b), lo32(h), hi32(h)})   (base/philox.h)
//   with h = FNV-1a (64 bits) of NAME
//   word(i)  = block(i / 4)[i % 4]                        32 bits for element i, or
//   byte(i)  = byte i % 4, lowest first, of block(i / 16)[i % 16 / 4]
// and its element i, row-major, is
//   kNormal   offset + scale * float(sum of the 4 bytes of word(i) - 510)
//   kUniform  offset + scale * float(word(i) >> 8)
//   kByte     byte(i)
//   kScale    offset + {-1, 0, 0, 1}[byte(i) & 3]
// in fp32, each operation rounded once and none fused, then rounded to the tensor's dtype to
// nearest even; elements from `live` on are 0. A sum of four bytes is near enough to normal, and
// exact.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "model/model_spec.h"
#include "model/safetensors_writer.h"

namespace tandem {

struct RandomValues {
  enum class Kind { kNormal, kUniform, kByte, kScale };
  Kind kind = Kind::kNormal;
  float offset = 0;
  float scale = 0;
  std::int64_t live = std::numeric_limits<std::int64_t>::max();
};

struct RandomTensor {
  TensorInfo info;
  RandomValues values;

  std::int64_t elements() const;
  std::uint64_t bytes() const;
};

// Every tensor of a model with the vendor's names, dtypes and shapes, in the order of the layers.
// Scales keep activations of order one, routing spread and decay gates unsaturated. Experts are
// packed if the configuration says so; an error if their width does not allow it.
Result<std::vector<RandomTensor>> random_tensors(const ModelSpec& spec);

// The bytes of elements [first, first + n) where n = bytes.size() / element size; `first` is a
// multiple of 16. Thread-safe.
void fill_random(const RandomTensor& tensor, std::uint64_t seed, std::int64_t first,
                 std::span<std::byte> bytes);

}  // namespace tandem
