#include "memory/arena.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

constexpr std::int64_t kState = 320;
constexpr std::int64_t kPage = 128;

// Room for `bytes` beside the sink.
std::unique_ptr<Arena> make_arena(std::int64_t bytes) {
  auto arena =
      Arena::create({.budget_bytes = kState + bytes, .state_bytes = kState, .page_bytes = kPage});
  CHECK(arena.has_value(), "{}", arena.error().message);
  return *std::move(arena);
}

std::vector<StateHandle> fill_with_states(Arena& arena) {
  std::vector<StateHandle> states;
  while (StateHandle state = arena.allocate_work(RequestId{states.size()})) {
    states.push_back(std::move(state));
  }
  return states;
}

std::vector<PageHandle> fill_with_pages(Arena& arena) {
  std::vector<PageHandle> pages;
  while (PageHandle page = arena.allocate_page()) pages.push_back(std::move(page));
  return pages;
}

std::vector<Move> moves_of(Arena& arena) {
  std::vector<Move> moves;
  arena.take_moves(moves);
  return moves;
}

void expect_sound(const Arena& arena) {
  const Result<void> sound = arena.integrity_check();
  EXPECT_TRUE(sound.has_value()) << sound.error().message;
}

TEST(ArenaTest, a_budget_without_room_for_one_request_is_refused) {
  const auto arena = Arena::create({.budget_bytes = 100, .state_bytes = 64, .page_bytes = 64});
  ASSERT_FALSE(arena.has_value());
  EXPECT_EQ(arena.error().code, StatusCode::kResourceExhausted);
}

TEST(ArenaTest, states_grow_upwards_and_pages_downwards_until_they_meet) {
  const auto arena = make_arena(2 * kState + 3 * kPage);
  const StateHandle a = arena->allocate_work(RequestId{1});
  const StateHandle b = arena->allocate_work(RequestId{2});
  EXPECT_EQ(arena->offset(a.id()), kState);
  EXPECT_EQ(arena->offset(b.id()), 2 * kState);
  const std::vector<PageHandle> pages = fill_with_pages(*arena);
  ASSERT_EQ(pages.size(), 3u);
  EXPECT_EQ(arena->offset(pages[0].id()), arena->geometry().buffer_bytes() - kPage);
  EXPECT_EQ(arena->offset(pages[2].id()), 3 * kState);
  EXPECT_EQ(arena->usage().gap_bytes, 0);
  EXPECT_FALSE(arena->allocate_work(RequestId{3}));
  EXPECT_TRUE(moves_of(*arena).empty());
  expect_sound(*arena);
}

TEST(ArenaTest, a_hole_is_reused_by_its_kind_the_deepest_first_and_without_a_move) {
  const auto arena = make_arena(6 * kState);
  std::vector<StateHandle> states = fill_with_states(*arena);
  ASSERT_EQ(states.size(), 6u);
  const std::int64_t deepest = arena->offset(states[1].id());
  states[3].reset();
  states[1].reset();
  EXPECT_EQ(arena->usage().holes.states, 2);
  EXPECT_EQ(arena->usage().gap_bytes, 0);
  const StateHandle again = arena->allocate_work(RequestId{9});
  EXPECT_EQ(arena->offset(again.id()), deepest);
  EXPECT_TRUE(moves_of(*arena).empty());
}

TEST(ArenaTest, holes_beside_the_gap_dissolve_without_a_move) {
  const auto arena = make_arena(6 * kState);
  std::vector<StateHandle> states = fill_with_states(*arena);
  states[4].reset();
  states[3].reset();
  EXPECT_EQ(arena->usage().holes.states, 2);
  states[5].reset();
  EXPECT_EQ(arena->usage().holes.states, 0);
  EXPECT_EQ(arena->usage().gap_bytes, 3 * kState);
  EXPECT_TRUE(moves_of(*arena).empty());
}

TEST(ArenaTest, the_other_kinds_need_moves_the_end_entry_into_the_deepest_hole) {
  const auto arena = make_arena(6 * kState);
  std::vector<StateHandle> states = fill_with_states(*arena);
  const StateId last = states[5].id();
  states[1].reset();
  states[3].reset();
  const PageHandle page = arena->allocate_page();
  ASSERT_TRUE(page);
  EXPECT_EQ(moves_of(*arena), (std::vector<Move>{{.kind = EntryKind::kState,
                                                  .src_offset = 6 * kState,
                                                  .dst_offset = 2 * kState,
                                                  .bytes = kState}}));
  EXPECT_TRUE(moves_of(*arena).empty());       // handed out once
  EXPECT_EQ(arena->offset(last), 2 * kState);  // the name still holds
  EXPECT_EQ(arena->usage().holes.states, 1);   // no more was moved than needed
  EXPECT_EQ(arena->counters().largest_burst_bytes, kState);
  expect_sound(*arena);
}

TEST(ArenaTest, pages_give_way_to_a_state) {
  const auto arena = make_arena(8 * kPage);  // 1024 bytes: a state takes the room of 3 pages
  std::vector<PageHandle> pages = fill_with_pages(*arena);
  ASSERT_EQ(pages.size(), 8u);
  for (std::size_t i : {0u, 3u, 6u}) pages[i].reset();
  const StateHandle state = arena->allocate_work(RequestId{1});
  ASSERT_TRUE(state);
  const std::vector<Move> moves = moves_of(*arena);
  // Pages 7 and 5 lie beyond the new frontier, page 6 is free already.
  ASSERT_EQ(moves.size(), 2u);
  const auto at = [&](int position) {
    return arena->geometry().offset(EntryKind::kPage, position);
  };
  EXPECT_EQ(moves[0], (Move{EntryKind::kPage, at(7), at(0), kPage}));
  EXPECT_EQ(moves[1], (Move{EntryKind::kPage, at(5), at(3), kPage}));
  expect_sound(*arena);
}

TEST(ArenaTest, many_pages_come_all_or_none) {
  const auto arena = make_arena(8 * kPage);
  std::vector<PageHandle> five(5);
  std::vector<PageHandle> four(4);
  EXPECT_TRUE(arena->allocate_pages(five));
  EXPECT_FALSE(arena->allocate_pages(four));
  EXPECT_EQ(arena->usage().taken.pages, 5);
  EXPECT_FALSE(four[0]);
  four.pop_back();
  EXPECT_TRUE(arena->allocate_pages(four));
  EXPECT_TRUE(arena->allocate_pages({}));
}

TEST(ArenaTest, a_refused_allocation_moves_nothing) {
  const auto arena = make_arena(4 * kState);
  std::vector<StateHandle> states = fill_with_states(*arena);
  states[0].reset();  // one hole of 320 bytes: room for two pages, not for three
  std::vector<PageHandle> pages(3);
  EXPECT_FALSE(arena->allocate_pages(pages));
  EXPECT_TRUE(moves_of(*arena).empty());
  EXPECT_EQ(arena->usage().holes.states, 1);
}

TEST(ArenaTest, the_joint_test_counts_both_kinds_and_what_will_be_freed) {
  const auto arena = make_arena(4 * kState);  // 1280 bytes
  const std::vector<StateHandle> states = fill_with_states(*arena);
  EXPECT_TRUE(arena->can_allocate({}));
  EXPECT_FALSE(arena->can_allocate({.pages = 1}));
  EXPECT_TRUE(arena->can_allocate_after_freeing({.pages = 2}, {.states = 1}));
  EXPECT_FALSE(arena->can_allocate_after_freeing({.pages = 3}, {.states = 1}));
  EXPECT_TRUE(arena->can_allocate_after_freeing({.states = 1, .pages = 2}, {.states = 2}));
  EXPECT_FALSE(arena->can_allocate_after_freeing({.states = 1, .pages = 3}, {.states = 2}));
  EXPECT_FALSE(arena->can_allocate({.states = std::int64_t{1} << 62, .pages = 0}));
  EXPECT_EQ(arena->headroom(EntryKind::kPage), 0);
}

TEST(ArenaTest, headroom_counts_holes_of_both_kinds) {
  const auto arena = make_arena(4 * kState);
  std::vector<StateHandle> states = fill_with_states(*arena);
  states[0].reset();
  EXPECT_EQ(arena->headroom(EntryKind::kState), 1);
  EXPECT_EQ(arena->headroom(EntryKind::kPage), 2);
}

TEST(ArenaTest, compaction_at_rest_leaves_one_gap) {
  const auto arena = make_arena(4 * kState + 5 * kPage);
  std::vector<StateHandle> states;
  for (std::uint64_t i = 0; i < 4; ++i) states.push_back(arena->allocate_work(RequestId{i}));
  std::vector<PageHandle> pages = fill_with_pages(*arena);
  states[0].reset();
  states[2].reset();
  pages[1].reset();
  arena->compact_all();
  EXPECT_EQ(arena->usage().hole_bytes, 0);
  EXPECT_EQ(arena->usage().gap_bytes, 2 * kState + kPage);
  EXPECT_EQ(moves_of(*arena).size(), 2u);  // state 3 into hole 0, the last page into hole 1
  expect_sound(*arena);
}

TEST(ArenaTest, a_slot_changes_owner_by_donation_and_keeps_its_place) {
  const auto arena = make_arena(4 * kState);
  const StateHandle work = arena->allocate_work(RequestId{7});
  StateHandle ping = arena->allocate_ping(RequestId{7}, 1);
  EXPECT_EQ(arena->meta(work.id()).owner, StateOwner::kWork);
  EXPECT_EQ(arena->meta(ping.id()).owner, StateOwner::kPing);
  EXPECT_EQ(arena->meta(ping.id()).ping, 1);
  EXPECT_EQ(arena->meta(ping.id()).request, RequestId{7});
  const StateId id = ping.id();
  const std::int64_t offset = arena->offset(id);
  arena->donate(ping, NodeId{12}, 4096);
  EXPECT_EQ(arena->meta(id).owner, StateOwner::kTree);
  EXPECT_EQ(arena->meta(id).node, NodeId{12});
  EXPECT_EQ(arena->meta(id).depth_tokens, 4096);
  EXPECT_EQ(arena->offset(id), offset);
  EXPECT_EQ(arena->usage().states[static_cast<std::size_t>(StateOwner::kWork)], 1);
  EXPECT_EQ(arena->usage().states[static_cast<std::size_t>(StateOwner::kTree)], 1);
  expect_sound(*arena);
}

// --- Handles ------------------------------------------------------------------------------------

TEST(HandleTest, a_moved_from_handle_is_empty_and_gives_nothing_back) {
  const auto arena = make_arena(4 * kState);
  StateHandle first = arena->allocate_work(RequestId{1});
  const StateId id = first.id();
  {
    StateHandle second = std::move(first);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): what is tested
    EXPECT_EQ(second.id(), id);
    first.reset();
    EXPECT_EQ(arena->usage().taken.states, 1);
    second = std::move(second);
    EXPECT_EQ(arena->usage().taken.states, 1);
  }
  EXPECT_EQ(arena->usage().taken.states, 0);
}

TEST(HandleTest, assigning_to_a_handle_gives_its_old_entry_back) {
  const auto arena = make_arena(4 * kState);
  PageHandle page = arena->allocate_page();
  page = arena->allocate_page();
  EXPECT_EQ(arena->usage().taken.pages, 1);
  page = {};
  EXPECT_EQ(arena->usage().taken.pages, 0);
}

TEST(HandleTest, handles_and_pins_cannot_be_copied) {
  EXPECT_FALSE(std::is_copy_constructible_v<StateHandle>);
  EXPECT_FALSE(std::is_copy_assignable_v<PageHandle>);
  EXPECT_FALSE(std::is_copy_constructible_v<ReaderPin>);
  EXPECT_FALSE((std::is_convertible_v<StateId, PageId>));
}

TEST(HandleDeathTest, a_stale_name_is_recognised_even_when_its_slot_lives_again) {
  const auto arena = make_arena(4 * kState);
  StateHandle handle = arena->allocate_work(RequestId{1});
  const StateId stale = handle.id();
  handle.reset();
  EXPECT_DEATH((void)arena->offset(stale), "was given back");
  handle = arena->allocate_work(RequestId{2});
  EXPECT_EQ(handle.id().index, stale.index);
  EXPECT_GT(handle.id().generation, stale.generation);
  EXPECT_DEATH((void)arena->offset(stale), "was given back");
  EXPECT_DEATH((void)arena->meta(stale), "was given back");
  EXPECT_DEATH((void)arena->pin(stale), "was given back");
  EXPECT_DEATH((void)arena->offset(PageId{}), "was given back");
}

TEST(HandleDeathTest, misuse_is_a_programmers_error) {
  const auto arena = make_arena(4 * kState);
  const StateHandle empty;
  EXPECT_DEATH((void)empty.id(), "empty handle");
  StateHandle state = arena->allocate_work(RequestId{1});
  arena->donate(state, NodeId{1}, 64);
  EXPECT_DEATH(arena->donate(state, NodeId{2}, 64), "no request's to donate");
  EXPECT_DEATH((void)arena->allocate_ping(RequestId{1}, 2), "snapshots 0 and 1");
  std::array<PageHandle, 1> pages{arena->allocate_page()};
  EXPECT_DEATH((void)arena->allocate_pages(pages), "owns page");
  EXPECT_DEATH((void)arena->can_allocate({.states = -1}), "no such counts");
}

TEST(HandleDeathTest, an_arena_must_outlive_its_handles) {
  EXPECT_DEATH(
      {
        auto arena = make_arena(4 * kState);
        const PageHandle page = arena->allocate_page();
        arena.reset();
      },
      "dies before the owners");
}

// --- Pins ---------------------------------------------------------------------------------------

TEST(ReaderPinTest, a_pinned_entry_is_not_moved) {
  const auto arena = make_arena(4 * kState);
  std::vector<StateHandle> states = fill_with_states(*arena);
  ReaderPin pin = arena->pin(states[3].id());
  states[0].reset();
  EXPECT_FALSE(arena->can_allocate({.pages = 1}));
  EXPECT_FALSE(arena->allocate_page());
  EXPECT_EQ(arena->headroom(EntryKind::kPage), 0);
  EXPECT_TRUE(arena->can_allocate({.states = 1}));  // the hole itself is usable
  arena->compact_all();
  EXPECT_TRUE(moves_of(*arena).empty());
  pin.reset();
  EXPECT_TRUE(arena->allocate_page());
  expect_sound(*arena);
}

TEST(ReaderPinTest, entries_beyond_a_pinned_one_can_still_move) {
  const auto arena = make_arena(6 * kState);
  std::vector<StateHandle> states = fill_with_states(*arena);
  const ReaderPin pin = arena->pin(states[3].id());
  states[0].reset();
  states[1].reset();
  states[2].reset();
  EXPECT_EQ(arena->headroom(EntryKind::kPage), 5);  // the room of states 4 and 5
  arena->compact_all();
  EXPECT_EQ(arena->usage().holes.states, 1);
  EXPECT_EQ(arena->usage().gap_bytes, 2 * kState);
  expect_sound(*arena);
}

TEST(ReaderPinTest, an_entry_given_back_stays_until_its_last_pin_is_dropped) {
  const auto arena = make_arena(2 * kState);
  StateHandle first = arena->allocate_work(RequestId{1});
  const StateHandle second = arena->allocate_work(RequestId{2});
  const StateId id = first.id();
  const std::int64_t offset = arena->offset(id);
  ReaderPin one = arena->pin(id);
  ReaderPin two = arena->pin(id);
  EXPECT_TRUE(arena->is_pinned(id));
  first.reset();
  EXPECT_EQ(arena->usage().pending.states, 1);
  EXPECT_EQ(arena->usage().states[static_cast<std::size_t>(StateOwner::kReader)], 1);
  EXPECT_FALSE(arena->can_allocate({.states = 1}));
  EXPECT_EQ(one.offset(), offset);
  expect_sound(*arena);
  one.reset();
  EXPECT_FALSE(arena->allocate_work(RequestId{3}));
  two = {};
  EXPECT_EQ(arena->usage().pending.states, 0);
  const StateHandle third = arena->allocate_work(RequestId{3});
  ASSERT_TRUE(third);
  EXPECT_EQ(arena->offset(third.id()), offset);
  expect_sound(*arena);
}

TEST(ReaderPinTest, pins_of_one_fence_are_dropped_together_and_later_ones_stay) {
  const auto arena = make_arena(8 * kPage);
  std::vector<PageHandle> pages = fill_with_pages(*arena);
  for (std::size_t i = 0; i < 4; ++i) {
    arena->keep_until(Fence{5}, arena->pin(pages[i].id()));
  }
  arena->keep_until(Fence{6}, arena->pin(pages[4].id()));
  pages.clear();
  EXPECT_EQ(arena->usage().pending.pages, 5);
  arena->pass(Fence{4});
  EXPECT_EQ(arena->usage().pending.pages, 5);
  arena->pass(Fence{5});
  EXPECT_EQ(arena->usage().pending.pages, 1);
  EXPECT_EQ(arena->usage().pinned.pages, 1);
  arena->pass(Fence{7});
  EXPECT_EQ(arena->usage().taken.pages, 0);
  expect_sound(*arena);
}

TEST(ReaderPinTest, a_name_is_stale_from_the_moment_its_owner_gives_it_up) {
  const auto arena = make_arena(4 * kState);
  PageHandle page = arena->allocate_page();
  const PageId id = page.id();
  const ReaderPin pin = arena->pin(id);
  page.reset();
  EXPECT_DEATH((void)arena->offset(id), "was given back");
}

}  // namespace
}  // namespace tandem
