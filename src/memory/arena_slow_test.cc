// Ten million operations against the shadow. TANDEM_ARENA_OPERATIONS sets another number.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <random>
#include <string>

#include "memory/arena_testing.h"

namespace tandem::testing {
namespace {

constexpr int kOperationsPerPhase = 3000;
constexpr int kOperationsPerCheck = 500;

std::int64_t total_operations() {
  const char* value = std::getenv("TANDEM_ARENA_OPERATIONS");
  return value == nullptr ? 10'000'000 : std::stoll(value);
}

// Weights of Operation::Kind. Phases alternate which kind is asked for and whether the arena fills
// or drains, so that every cross-kind demand meets an arena full of the other's holes.
using Weights = std::array<double, Operation::kKinds>;
constexpr std::array<Weights, 4> kPhases = {{
    {12, 6, 4, 4, 8, 4, 4, 1, 2, 1, 3, 2, 0.05, 6},
    {1, 1, 14, 8, 5, 2, 4, 1, 2, 1, 3, 2, 0.05, 6},
    {4, 2, 6, 8, 12, 2, 4, 1, 2, 1, 3, 2, 0.05, 6},
    {8, 2, 10, 8, 10, 3, 4, 0, 4, 0, 6, 2, 0.05, 10},
}};

void run(const ArenaGeometry& geometry, std::int64_t operations, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  ArenaShadow shadow(geometry);
  std::discrete_distribution<int> draw;
  for (std::int64_t i = 0; i < operations; ++i) {
    if (i % kOperationsPerPhase == 0) {
      const Weights& weights = kPhases[random() % kPhases.size()];
      draw = std::discrete_distribution<int>(weights.begin(), weights.end());
    }
    const Operation operation{.kind = static_cast<Operation::Kind>(draw(random)),
                              .a = static_cast<std::uint32_t>(random() >> 40),
                              .b = static_cast<std::uint32_t>(random() >> 40)};
    Result<void> agrees = shadow.apply(operation);
    if (agrees && i % kOperationsPerCheck == 0) agrees = shadow.check();
    ASSERT_TRUE(agrees.has_value()) << "operation " << i << ": " << agrees.error().message;
  }
  const ArenaCounters counters = shadow.arena().counters();
  const Result<void> agrees = shadow.finish();
  ASSERT_TRUE(agrees.has_value()) << agrees.error().message;
  fmt::print("{} operations, {} + {} bytes in {}: {} moves, {:.4f} bytes moved a byte freed\n",
             operations, geometry.state_bytes, geometry.page_bytes, geometry.budget_bytes,
             counters.moves,
             static_cast<double>(counters.moved_bytes) / static_cast<double>(counters.freed_bytes));
}

// Parts of the total; the last has the proportions of K3 with pages of 64 rows.
TEST(ArenaSlowTest, ten_million_operations_agree_with_the_shadow) {
  const std::int64_t total = total_operations();
  run({.budget_bytes = 64 * 60, .state_bytes = 64 * 13, .page_bytes = 64 * 5}, total / 4, 1);
  run({.budget_bytes = 64 * 400, .state_bytes = 64 * 5, .page_bytes = 64 * 13}, total / 4, 2);
  run({.budget_bytes = 64 * 3000, .state_bytes = 64 * 60, .page_bytes = 64 * 3}, total / 4, 3);
  run({.budget_bytes = 64 * 40'000, .state_bytes = 64 * 2032, .page_bytes = 64 * 64}, total / 4, 4);
}

}  // namespace
}  // namespace tandem::testing
