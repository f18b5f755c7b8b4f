#include "memory/arena_geometry.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(ArenaGeometryTest, entries_are_rounded_up_to_the_alignment_and_never_empty) {
  EXPECT_EQ(entry_bytes(0), 64);
  EXPECT_EQ(entry_bytes(1), 64);
  EXPECT_EQ(entry_bytes(64), 64);
  EXPECT_EQ(entry_bytes(65), 128);
  EXPECT_EQ(entry_bytes(56'171'520), 56'171'520);
}

TEST(ArenaGeometryTest, pages_end_at_the_last_aligned_byte_and_states_begin_behind_the_sink) {
  const ArenaGeometry geometry{
      .budget_bytes = 1000 * 64 + 63, .state_bytes = 320, .page_bytes = 192};
  EXPECT_EQ(geometry.buffer_bytes(), 64'000);
  EXPECT_EQ(geometry.sink_bytes(), 320);
  EXPECT_EQ(geometry.offset(EntryKind::kState, 0), 320);
  EXPECT_EQ(geometry.offset(EntryKind::kState, 3), 320 + 3 * 320);
  EXPECT_EQ(geometry.offset(EntryKind::kPage, 0), 64'000 - 192);
  EXPECT_EQ(geometry.offset(EntryKind::kPage, 2), 64'000 - 3 * 192);
}

TEST(ArenaGeometryTest, states_and_pages_share_the_bytes_beside_the_sink) {
  const ArenaGeometry geometry{.budget_bytes = 320 + 1000, .state_bytes = 320, .page_bytes = 192};
  EXPECT_EQ(geometry.buffer_bytes(), 1280);  // 960 beside the sink
  EXPECT_EQ(geometry.max_entries(EntryKind::kState), 3);
  EXPECT_EQ(geometry.max_entries(EntryKind::kPage), 5);
  EXPECT_TRUE(geometry.fits({.states = 3}));
  EXPECT_TRUE(geometry.fits({.states = 1, .pages = 3}));
  EXPECT_FALSE(geometry.fits({.states = 2, .pages = 2}));
  EXPECT_FALSE(geometry.fits({.states = std::int64_t{1} << 60, .pages = 0}));
}

TEST(ArenaGeometryTest, a_refused_budget_is_answered_with_the_sum) {
  const ArenaGeometry small{.budget_bytes = 800, .state_bytes = 320, .page_bytes = 192};
  ASSERT_FALSE(small.check().has_value());
  EXPECT_EQ(small.check().error().code, StatusCode::kResourceExhausted);
  EXPECT_EQ(small.check().error().message,
            "800 bytes of cache memory hold no request: padding takes 320, one state 320 and one "
            "page 192 bytes");
  EXPECT_TRUE((ArenaGeometry{.budget_bytes = 832, .state_bytes = 320, .page_bytes = 192}
                   .check()
                   .has_value()));
}

TEST(ArenaGeometryTest, sizes_that_are_none_are_refused) {
  for (std::int64_t bytes : {std::int64_t{0}, std::int64_t{-64}, std::int64_t{96}}) {
    const ArenaGeometry bad_state{.budget_bytes = 1 << 20, .state_bytes = bytes, .page_bytes = 64};
    const ArenaGeometry bad_page{.budget_bytes = 1 << 20, .state_bytes = 64, .page_bytes = bytes};
    EXPECT_EQ(bad_state.check().error().code, StatusCode::kInvalidArgument) << bytes;
    EXPECT_EQ(bad_page.check().error().code, StatusCode::kInvalidArgument) << bytes;
  }
  const ArenaGeometry negative{.budget_bytes = -1, .state_bytes = 64, .page_bytes = 64};
  EXPECT_EQ(negative.check().error().code, StatusCode::kResourceExhausted);
  const ArenaGeometry enormous{
      .budget_bytes = std::int64_t{1} << 40, .state_bytes = 64, .page_bytes = 64};
  EXPECT_EQ(enormous.check().error().code, StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
