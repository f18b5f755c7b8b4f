#include "memory/id_table.h"

namespace tandem {

IdTable::IdTable(std::uint32_t capacity) : names_(capacity), index_(capacity, kNone) {
  unused_.reserve(capacity);
  for (std::uint32_t i = capacity; i > 0; --i) unused_.push_back(i - 1);
}

Result<void> IdTable::integrity_check() const {
  std::vector<bool> unused(names_.size());
  for (std::uint32_t index : unused_) {
    if (unused[index]) return fail(StatusCode::kInternal, "name {} is unused twice", index);
    unused[index] = true;
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
