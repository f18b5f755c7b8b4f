// Temporary activations of one step, taken and given back in stack order.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/aligned_buffer.h"
#include "tensor/tensor_view.h"

namespace tandem {

// A stack of floats that grows while a step first needs it and is then reused: after the first step
// of a given size nothing is allocated. Owned by one step loop; not thread-safe. Contents start
// undefined.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Everything taken while a Frame lives is given back when it dies.
  class Frame {
   public:
    explicit Frame(Scratch& scratch)
        : scratch_(scratch), block_(scratch.block_), used_(scratch.used_) {}
    ~Frame() { scratch_.rewind(block_, used_); }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Scratch& scratch_;
    std::size_t block_;
    std::size_t used_;
  };

  // `count` floats on a cache-line boundary.
  float* take(std::int64_t count);
  // A dense [rows, columns] matrix.
  Activations take(std::int64_t rows, std::int64_t columns) {
    return {take(rows * columns), rows, columns, columns};
  }

  std::int64_t capacity_bytes() const;

 private:
  void rewind(std::size_t block, std::size_t used);

  std::vector<AlignedBuffer<float>> blocks_;
  std::size_t block_ = 0;  // the block in use
  std::size_t used_ = 0;   // floats taken from it
};

}  // namespace tandem
