// The memory of an engine whose load flips: one arena, or two pools with a wall between them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "memory/arena.h"

namespace tandem {

// Requests reserve all they may come to need when they are admitted, and take pages as they grow.
// Not thread-safe.
class FlipMemory {
 public:
  virtual ~FlipMemory() = default;
  // Whether the request was admitted: then all of `need` will be there.
  virtual bool admit(std::uint64_t request, EntryCounts need) = 0;
  // The request holds so many pages from now on; no more than it reserved.
  virtual void grow(std::uint64_t request, std::int64_t pages) = 0;
  virtual void leave(std::uint64_t request) = 0;
  // Bytes that entries moved by since the last call.
  virtual std::int64_t take_moved_bytes() = 0;
};

// The real arena, with its one test for admission.
std::unique_ptr<FlipMemory> make_joint_memory(const ArenaGeometry& geometry);
// `states` slots; the rest of the geometry's budget is pages.
std::unique_ptr<FlipMemory> make_split_memory(const ArenaGeometry& geometry, std::int64_t states);

}  // namespace tandem
