#include "tensor/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem {
namespace {

TEST(ScratchTest, buffers_taken_together_do_not_overlap) {
  Scratch scratch;
  Scratch::Frame frame(scratch);
  float* small = scratch.take(10);
  float* large = scratch.take(1 << 20);
  float* last = scratch.take(3);
  std::fill_n(small, 10, 1.0f);
  std::fill_n(large, 1 << 20, 2.0f);
  std::fill_n(last, 3, 3.0f);
  EXPECT_EQ(std::count(small, small + 10, 1.0f), 10);
  EXPECT_EQ(std::count(large, large + (1 << 20), 2.0f), 1 << 20);
}

TEST(ScratchTest, a_frame_gives_back_what_was_taken_inside_it) {
  Scratch scratch;
  Scratch::Frame outer(scratch);
  scratch.take(100);
  float* first = nullptr;
  {
    Scratch::Frame inner(scratch);
    first = scratch.take(100);
  }
  EXPECT_EQ(scratch.take(100), first);
}

TEST(ScratchTest, stops_growing_after_the_first_step) {
  Scratch scratch;
  const auto step = [&] {
    Scratch::Frame frame(scratch);
    for (int i = 0; i < 20; ++i) scratch.take(50'000);
  };
  step();
  const std::int64_t settled = scratch.capacity_bytes();
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(scratch.capacity_bytes(), settled);
}

}  // namespace
}  // namespace tandem
