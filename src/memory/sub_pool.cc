#include "memory/sub_pool.h"

#include <limits>

#include "base/check.h"

namespace tandem {

SubPool::SubPool(std::uint32_t capacity)
    : ids_(capacity),
      positions_(capacity),
      pinned_positions_(capacity),
      pins_(capacity, 0),
      is_pending_(capacity, 0) {}

std::uint32_t SubPool::allocate() {
  const std::uint32_t position = holes() > 0 ? positions_.lowest_absent() : frontier_++;
  CHECK(position < capacity(), "all {} positions are taken", capacity());
  positions_.insert(position);
  return ids_.bind(position);
}

bool SubPool::release(std::uint32_t index) {
  ids_.expire(index);
  if (pins_[index] != 0) {
    is_pending_[index] = 1;
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
  CHECK(pins_[index] < std::numeric_limits<std::uint16_t>::max(), "name {} has {} pins", index,
        pins_[index]);
  if (pins_[index]++ == 0) {
    pinned_positions_.insert(ids_.position(index));
    ++pinned_entries_;
  }
}

bool SubPool::unpin(std::uint32_t index) {
  CHECK(pins_[index] > 0, "name {} has no pin to drop", index);
  if (--pins_[index] > 0) return false;
  pinned_positions_.erase(ids_.position(index));
  --pinned_entries_;
  if (is_pending_[index] == 0) return false;
  is_pending_[index] = 0;
  --pending_;
  vacate(index);
  return true;
}

SubPool::Relocation SubPool::move_last() {
  const std::uint32_t from = frontier_ - 1;
  const std::uint32_t to = positions_.lowest_absent();
  const std::uint32_t index = ids_.index_at(from);
  CHECK(to < from && pins_[index] == 0, "position {} ({} pins) cannot move to {}", from,
        pins_[index], to);
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
  std::uint32_t pending = 0;
  std::uint32_t pinned = 0;
  for (std::uint32_t i = 0; i < capacity(); ++i) {
    const bool taken_by_name = ids_.index_at(i) != IdTable::kNone;
    if (taken_by_name != positions_.contains(i)) {
      return fail(StatusCode::kInternal, "position {} is both taken and free", i);
    }
    const bool pinned_there = taken_by_name && pins_[ids_.index_at(i)] != 0;
    if (pinned_there != pinned_positions_.contains(i)) {
      return fail(StatusCode::kInternal, "the pins of position {} are inconsistent", i);
    }
    if (is_pending_[i] != 0 && pins_[i] == 0) {
      return fail(StatusCode::kInternal, "name {} has neither an owner nor a pin", i);
    }
    pending += is_pending_[i];
    pinned += pins_[i] != 0 ? 1u : 0u;
  }
  if (pending != pending_ || pinned != pinned_entries_) {
    return fail(StatusCode::kInternal, "{} of {} pending and {} of {} pinned entries found",
                pending, pending_, pinned, pinned_entries_);
  }
  return {};
}

}  // namespace tandem
