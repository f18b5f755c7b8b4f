#include "tensor/scratch.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr std::size_t kMinBlockFloats = std::size_t{1} << 16;
constexpr std::size_t kFloatsPerLine = AlignedBuffer<float>::kAlignment / sizeof(float);

}  // namespace

float* Scratch::take(std::int64_t count) {
  const std::size_t need =
      (static_cast<std::size_t>(count) + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
  // Views of earlier blocks are alive, so a block never moves: a request that does not fit opens
  // the next.
  while (block_ < blocks_.size() && used_ + need > blocks_[block_].size()) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) blocks_.emplace_back(std::max(need, kMinBlockFloats));
  float* taken = blocks_[block_].data() + used_;
  used_ += need;
  return taken;
}

void Scratch::rewind(std::size_t block, std::size_t used) {
  block_ = block;
  used_ = used;
  if (block_ != 0 || used_ != 0 || blocks_.size() < 2) return;
  // Empty, and the last step needed several blocks: one of their total size serves the next like
  // it.
  std::size_t total = 0;
  for (const auto& each : blocks_) total += each.size();
  blocks_.clear();
  blocks_.emplace_back(total);
}

std::int64_t Scratch::capacity_bytes() const {
  std::size_t total = 0;
  for (const auto& each : blocks_) total += each.size() * sizeof(float);
  return static_cast<std::int64_t>(total);
}

}  // namespace tandem
