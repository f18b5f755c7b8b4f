#include "memory/id_table.h"

#include "base/check.h"

namespace tandem {

IdTable::IdTable(std::uint32_t capacity)
    : position_(capacity, kNone), index_(capacity, kNone), generation_(capacity, 0) {
  unused_.reserve(capacity);
  for (std::uint32_t i = capacity; i > 0; --i) unused_.push_back(i - 1);
}

std::uint32_t IdTable::bind(std::uint32_t position) {
  DCHECK(index_[position] == kNone, "position {} is taken", position);
  const std::uint32_t index = unused_.back();
  unused_.pop_back();
  position_[index] = position;
  index_[position] = index;
  return index;
}

void IdTable::rebind(std::uint32_t index, std::uint32_t position) {
  DCHECK(index_[position] == kNone, "position {} is taken", position);
  index_[position_[index]] = kNone;
  position_[index] = position;
  index_[position] = index;
}

void IdTable::unbind(std::uint32_t index) {
  index_[position_[index]] = kNone;
  position_[index] = kNone;
  unused_.push_back(index);
}

Result<void> IdTable::integrity_check() const {
  std::vector<bool> unused(position_.size());
  for (std::uint32_t index : unused_) {
    if (unused[index]) return fail(StatusCode::kInternal, "name {} is unused twice", index);
    unused[index] = true;
  }
  std::size_t used_positions = 0;
  for (std::uint32_t index : index_) used_positions += index != kNone ? 1u : 0u;
  if (used_positions != used()) {
    return fail(StatusCode::kInternal, "{} names for {} positions", used(), used_positions);
  }
  for (std::uint32_t index = 0; index < position_.size(); ++index) {
    if (unused[index] != (position_[index] == kNone)) {
      return fail(StatusCode::kInternal, "name {} is both used and unused", index);
    }
    if (!unused[index] && index_[position_[index]] != index) {
      return fail(StatusCode::kInternal, "position {} of name {} names {}", position_[index], index,
                  index_[position_[index]]);
    }
  }
  return {};
}

}  // namespace tandem
