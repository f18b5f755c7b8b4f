#include "memory/sub_pool.h"

#include <limits>
#include <utility>

#include "base/check.h"

namespace tandem {

SubPool::SubPool(std::uint32_t capacity)
    : ids_(capacity), positions_(capacity), pinned_positions_(capacity), readers_(capacity) {}

std::uint32_t SubPool::allocate() {
  const std::uint32_t position = holes() > 0 ? positions_.lowest_absent() : frontier_++;
  CHECK(position < capacity(), "all {} positions are taken", capacity());
  positions_.insert(position);
  return ids_.bind(position);
}

bool SubPool::release(std::uint32_t index) {
  ids_.expire(index);
  if (pinned_entries_ > 0 && is_pinned(index)) {
    readers_[index].is_pending = true;
    ++pending_;
    return false;
  }
  vacate(index);
  return true;
}

void SubPool::vacate(std::uint32_t index) {
  const std::uint32_t position = ids_.position(index);
  ids_.unbind(index);
  positions_.erase(position);
  // Holes next to the middle dissolve without a move.
  if (position + 1 == frontier_) frontier_ = positions_.end();
}

void SubPool::pin(std::uint32_t index) {
  std::uint16_t& pins = readers_[index].pins;
  CHECK(pins < std::numeric_limits<std::uint16_t>::max(), "name {} has {} pins", index, pins);
  if (pins++ == 0) {
    pinned_positions_.insert(ids_.position(index));
    ++pinned_entries_;
  }
}

bool SubPool::unpin(std::uint32_t index) {
  Readers& readers = readers_[index];
  CHECK(readers.pins > 0, "name {} has no pin to drop", index);
  if (--readers.pins > 0) return false;
  pinned_positions_.erase(ids_.position(index));
  --pinned_entries_;
  if (!std::exchange(readers.is_pending, false)) return false;
  --pending_;
  vacate(index);
  return true;
}

SubPool::Relocation SubPool::move_last() {
  const std::uint32_t from = frontier_ - 1;
  const std::uint32_t to = positions_.lowest_absent();
  const std::uint32_t index = ids_.index_at(from);
  CHECK(to < from && !is_pinned(index), "position {} ({} pins) cannot move to {}", from,
        readers_[index].pins, to);
  ids_.rebind(index, to);
  positions_.insert(to);
  positions_.erase(from);
  frontier_ = positions_.end();
  return {.index = index, .from = from, .to = to};
}

Result<void> SubPool::integrity_check() const {
  TRY(ids_.integrity_check());
  TRY(positions_.integrity_check());
  TRY(pinned_positions_.integrity_check());
  if (frontier_ != positions_.end() || taken() > frontier_) {
    return fail(StatusCode::kInternal, "{} entries end at {}, the frontier is {}", taken(),
                positions_.end(), frontier_);
  }
  std::uint32_t found = 0;
  std::uint32_t pending = 0;
  std::uint32_t pinned = 0;
  for (std::uint32_t i = 0; i < capacity(); ++i) {
    const bool is_taken = positions_.contains(i);
    if (is_taken && ids_.position(ids_.index_at(i)) != i) {
      return fail(StatusCode::kInternal, "position {} is taken by no name", i);
    }
    found += is_taken ? 1u : 0u;
    const bool pinned_there = is_taken && is_pinned(ids_.index_at(i));
    if (pinned_there != pinned_positions_.contains(i)) {
      return fail(StatusCode::kInternal, "the pins of position {} are inconsistent", i);
    }
    const Readers& readers = readers_[i];
    if (readers.is_pending && readers.pins == 0) {
      return fail(StatusCode::kInternal, "name {} has neither an owner nor a pin", i);
    }
    pending += readers.is_pending ? 1u : 0u;
    pinned += readers.pins != 0 ? 1u : 0u;
  }
  if (found != taken() || pending != pending_ || pinned != pinned_entries_) {
    return fail(StatusCode::kInternal,
                "found {} entries, {} pending and {} pinned, not {}, {} and {}", found, pending,
                pinned, taken(), pending_, pinned_entries_);
  }
  return {};
}

}  // namespace tandem
