// (token, slot) pairs grouped by expert, so that each expert's weights are read once.
#pragma once

#include <cstdint>

#include "kernels/cpu/parallel.h"
#include "kernels/ops/moe.h"

namespace tandem::cpu {

// Pairs sorted by expert, in order of token within one.
struct Grouping {
  std::int64_t groups = 0;         // experts that have a pair
  std::int32_t* expert = nullptr;  // [groups]
  std::int32_t* first = nullptr;   // [groups + 1] first place of a group
  std::int32_t* place = nullptr;   // [tokens * top_k] place of pair t * top_k + slot

  std::int32_t rows(std::int64_t group) const { return first[group + 1] - first[group]; }
};

// In memory of `scratch`, until it is asked for more.
Grouping group_pairs(const ExpertsArgs& args, Scratch& scratch);

// The operator for experts of kMxfp4 in tiles.
void tiled_experts(const ExpertsArgs& args, ThreadTeam& team) noexcept;

}  // namespace tandem::cpu
