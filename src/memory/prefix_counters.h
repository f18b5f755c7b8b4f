// What the prefix cache counts, for metrics with bounded labels.
#pragma once

#include <array>
#include <cstdint>

#include "memory/prefix_match.h"

namespace tandem {

enum class EvictionCause : std::uint8_t {
  kPressure,  // for room
  kPathCap,   // too many states on one path
  kUseless,   // rows without a state after them, once nobody holds them
};
constexpr std::size_t kEvictionCauses = 3;

// Since the cache was made. An array is indexed by the enumeration of the same name.
struct PrefixCounters {
  std::int64_t lookups = 0;
  std::int64_t hit_tokens = 0;            // usable
  std::int64_t row_hit_tokens = 0;        // rows were cached: hit_tokens plus what is lost
  std::int64_t lost_to_state_tokens = 0;  // rows without a state to start from
  std::array<std::int64_t, kReplayCauses> replay_tokens{};     // the same, by ReplayCause
  std::array<std::int64_t, kCheckpointReasons> planted{};      // states that entered the tree
  std::array<std::int64_t, kCheckpointReasons> used{};         // locked to be restored from
  std::int64_t duplicate_states = 0;                           // donated where there was one
  std::int64_t duplicate_pages = 0;                            // likewise
  std::int64_t evicted_unused = 0;                             // states never restored from
  std::array<std::int64_t, kEvictionCauses> evicted_states{};  // by EvictionCause
  std::array<std::int64_t, kEvictionCauses> evicted_pages{};   // likewise
  // States on the path of a state that enters, itself included: 1, 2-3, 4-7, ..., 128 and more.
  std::array<std::int64_t, 8> path_states{};
};

// At present.
struct PrefixUsage {
  std::int64_t namespaces = 0;
  std::int64_t nodes = 0;
  std::int64_t locks = 0;
  std::int64_t states = 0;
  std::int64_t pages = 0;
  std::int64_t locked_states = 0;
  std::int64_t locked_pages = 0;
  std::int64_t tombstones = 0;      // nodes whose state was evicted
  std::int64_t stranded_pages = 0;  // of tombstones

  bool operator==(const PrefixUsage&) const = default;
};

}  // namespace tandem
