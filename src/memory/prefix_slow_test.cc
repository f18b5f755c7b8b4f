// The property test's operations, ten million of them.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "memory/prefix_shadow.h"

namespace tandem::testing {
namespace {

constexpr int kCaches = 100;
constexpr int kOperations = 100'000;  // on each
constexpr int kCheckEvery = 500;

TEST(PrefixSlowTest, ten_million_operations_agree_with_the_shadow) {
  std::mt19937 random(1);
  const auto draw = [&random](std::uint32_t below) {
    return static_cast<std::int64_t>(random() % below);
  };
  // Donations are frequent, waits rare.
  constexpr std::array kKinds = {PrefixOperation::kStart,        PrefixOperation::kStart,
                                 PrefixOperation::kDonate,       PrefixOperation::kDonate,
                                 PrefixOperation::kDonate,       PrefixOperation::kFinish,
                                 PrefixOperation::kReleaseState, PrefixOperation::kEvict,
                                 PrefixOperation::kMakeRoom,     PrefixOperation::kWait};
  std::int64_t evicted = 0;
  std::int64_t replayed = 0;
  for (int i = 0; i < kCaches; ++i) {
    const std::int64_t page = std::int64_t{1} << draw(5);
    const std::int64_t cap = draw(4) == 0 ? 1 + draw(3) : 0;
    PrefixShadow shadow(
        {.page_tokens = page, .grid_tokens = page * (1 + draw(3)), .max_states_per_path = cap},
        4 + draw(120));
    for (int n = 0; n < kOperations; ++n) {
      Result<void> agrees = shadow.apply({.kind = kKinds[random() % kKinds.size()],
                                          .a = static_cast<std::uint32_t>(random()),
                                          .b = static_cast<std::uint32_t>(random())});
      if (agrees && n % kCheckEvery == 0) agrees = shadow.check();
      ASSERT_TRUE(agrees.has_value()) << agrees.error().message << " at " << n << " of " << i;
    }
    for (const std::int64_t states : shadow.counters().evicted_states) evicted += states;
    replayed += shadow.counters().lost_to_state_tokens;
    const Result<void> agrees = shadow.finish();
    ASSERT_TRUE(agrees.has_value()) << agrees.error().message;
  }
  EXPECT_GT(evicted, kCaches * kOperations / 100);
  EXPECT_GT(replayed, evicted);
}

}  // namespace
}  // namespace tandem::testing
