#include "base/philox.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

// Known answers published with the Random123 library.
TEST(PhiloxTest, matches_the_published_known_answers) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~std::uint64_t{0}, {~0u, ~0u, ~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, uniform_numbers_fill_the_unit_interval) {
  double sum = 0;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const double u = philox_uniform(42, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
  }
  // Standard error of the mean: 0.29 / 100.
  EXPECT_NEAR(sum / 10'000, 0.5, 0.015);
}

}  // namespace
}  // namespace tandem
