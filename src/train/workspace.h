// Temporary matrices of one backward pass, taken and given back in stack order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tensor/aligned_buffer.h"
#include "train/rows.h"

namespace tandem::train {

// tensor/scratch.h for any element type. Grows while a pass first needs it and is then reused.
// Owned by one trainer; not thread-safe.
template <typename T>
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // Everything taken while a Frame lives is given back when it dies.
  class Frame {
   public:
    explicit Frame(Workspace& workspace)
        : workspace_(workspace), block_(workspace.block_), used_(workspace.used_) {}
    ~Frame() {
      workspace_.block_ = block_;
      workspace_.used_ = used_;
    }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Workspace& workspace_;
    std::size_t block_;
    std::size_t used_;
  };

  // A dense [rows, columns] matrix with undefined contents.
  Rows<T> take(std::int64_t rows, std::int64_t columns) {
    return {take(rows * columns), rows, columns, columns};
  }
  Rows<T> zeros(std::int64_t rows, std::int64_t columns) {
    const Rows<T> taken = take(rows, columns);
    std::fill_n(taken.data, rows * columns, T(0));
    return taken;
  }
  T* take(std::int64_t count) {
    const std::size_t wanted = (static_cast<std::size_t>(count) + kStep - 1) / kStep * kStep;
    while (block_ < blocks_.size() && blocks_[block_].size() - used_ < wanted) {
      ++block_;
      used_ = 0;
    }
    if (block_ == blocks_.size()) {
      const std::size_t last = blocks_.empty() ? 0 : blocks_.back().size();
      blocks_.emplace_back(std::max({wanted, 2 * last, kFirstBlock}));
      used_ = 0;
    }
    T* taken = blocks_[block_].data() + used_;
    used_ += wanted;
    return taken;
  }

 private:
  static constexpr std::size_t kStep = AlignedBuffer<T>::kAlignment / sizeof(T);
  static constexpr std::size_t kFirstBlock = std::size_t{1} << 18;

  std::vector<AlignedBuffer<T>> blocks_;
  std::size_t block_ = 0;  // the block in use
  std::size_t used_ = 0;   // elements taken from it
};

}  // namespace tandem::train
