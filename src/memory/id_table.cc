#include "memory/id_table.h"

#include "base/check.h"

namespace tandem {

IdTable::IdTable(std::uint32_t capacity) : names_(capacity), index_(capacity, kNone) {
  unused_.reserve(capacity);
  for (std::uint32_t i = capacity; i > 0; --i) unused_.push_back(i - 1);
}

std::uint32_t IdTable::bind(std::uint32_t position) {
  DCHECK(index_[position] == kNone, "position {} is taken", position);
  const std::uint32_t index = unused_.back();
  unused_.pop_back();
  names_[index].position = position;
  index_[position] = index;
  return index;
}

void IdTable::rebind(std::uint32_t index, std::uint32_t position) {
  DCHECK(index_[position] == kNone, "position {} is taken", position);
  index_[names_[index].position] = kNone;
  names_[index].position = position;
  index_[position] = index;
}

void IdTable::unbind(std::uint32_t index) {
  index_[names_[index].position] = kNone;
  names_[index].position = kNone;
  unused_.push_back(index);
}

Result<void> IdTable::integrity_check() const {
  std::vector<bool> unused(names_.size());
  for (std::uint32_t index : unused_) {
    if (unused[index]) return fail(StatusCode::kInternal, "name {} is unused twice", index);
    unused[index] = true;
  }
  std::size_t used_positions = 0;
  for (std::uint32_t index : index_) used_positions += index != kNone ? 1u : 0u;
  if (used_positions != used()) {
    return fail(StatusCode::kInternal, "{} names for {} positions", used(), used_positions);
  }
  for (std::uint32_t index = 0; index < names_.size(); ++index) {
    if (unused[index] != (names_[index].position == kNone)) {
      return fail(StatusCode::kInternal, "name {} is both used and unused", index);
    }
    if (!unused[index] && index_[names_[index].position] != index) {
      return fail(StatusCode::kInternal, "position {} of name {} names {}", names_[index].position,
                  index, index_[names_[index].position]);
    }
  }
  return {};
}

}  // namespace tandem
