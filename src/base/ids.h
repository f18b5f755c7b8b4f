// Identifiers that must not be mixed up.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace tandem {

// Index into a model's vocabulary. A plain integer: token arrays cross every boundary as data.
using TokenId = std::int32_t;

// A distinct integer type per tag: `using RequestId = Id<struct RequestTag>;`
template <typename Tag>
struct Id {
  std::uint64_t value = 0;
  auto operator<=>(const Id&) const = default;
};

using RequestId = Id<struct RequestTag>;

}  // namespace tandem

template <typename Tag>
struct std::hash<tandem::Id<Tag>> {
  std::size_t operator()(tandem::Id<Tag> id) const noexcept {
    return std::hash<std::uint64_t>()(id.value);
  }
};
