// Random requests on random small caches, with a check of everything after each.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "memory/prefix_placement.h"
#include "memory/prefix_shadow.h"

namespace tandem::testing {
namespace {

rc::Gen<PrefixOperation> any_operation() {
  using Kind = PrefixOperation::Kind;
  return rc::gen::map(
      rc::gen::tuple(rc::gen::weightedElement<Kind>({{4, Kind::kStart},
                                                     {6, Kind::kDonate},
                                                     {2, Kind::kFinish},
                                                     {2, Kind::kReleaseState},
                                                     {2, Kind::kEvict},
                                                     {1, Kind::kMakeRoom},
                                                     {1, Kind::kWait}}),
                     rc::gen::resize(100, rc::gen::inRange<std::uint32_t>(0, 1000)),
                     rc::gen::resize(100, rc::gen::inRange<std::uint32_t>(0, 1000))),
      [](const std::tuple<Kind, std::uint32_t, std::uint32_t>& drawn) {
        const auto [kind, a, b] = drawn;
        return PrefixOperation{.kind = kind, .a = a, .b = b};
      });
}

PrefixCacheOptions any_options() {
  const auto page = *rc::gen::element<std::int64_t>(1, 2, 16, 64);
  return {.page_tokens = page,
          .grid_tokens = page * *rc::gen::element<std::int64_t>(1, 2, 3),
          .max_states_per_path = *rc::gen::weightedElement<std::int64_t>({{3, 0}, {1, 1}, {1, 2}})};
}

RC_GTEST_PROP(PrefixPropertyTest, agrees_with_its_shadow_after_every_operation, ()) {
  const PrefixCacheOptions options = any_options();
  PrefixShadow shadow(options, *rc::gen::resize(100, rc::gen::inRange<std::int64_t>(4, 120)));
  const auto operations =
      *rc::gen::scale(4.0, rc::gen::container<std::vector<PrefixOperation>>(any_operation()));
  for (const PrefixOperation& operation : operations) {
    Result<void> agrees = shadow.apply(operation);
    if (agrees) agrees = shadow.check();
    if (!agrees) RC_FAIL(agrees.error().message);
  }
  const Result<void> agrees = shadow.finish();
  if (!agrees) RC_FAIL(agrees.error().message);
}

RC_GTEST_PROP(PrefixPropertyTest, planned_checkpoints_are_ascending_on_the_grid_and_in_reach, ()) {
  const auto tokens = [](std::int64_t limit) {
    return *rc::gen::resize(100, rc::gen::inRange<std::int64_t>(0, limit));
  };
  const PlacementOptions options = {.grid_tokens = 1 + tokens(100),
                                    .min_spacing_tokens = 1 + tokens(2000)};
  const std::int64_t prompt = 1 + tokens(10'000);
  PrefixMatch match;
  match.usable_tokens = tokens(prompt) / options.grid_tokens * options.grid_tokens;
  match.branch_tokens = tokens(prompt) / options.grid_tokens * options.grid_tokens;
  const auto planned = plan_checkpoints(match, prompt, tokens(prompt), options);
  std::int64_t before = match.usable_tokens;
  for (const PlannedCheckpoint& next : planned) {
    RC_ASSERT(next.depth_tokens > before);
    RC_ASSERT(next.depth_tokens <= prompt);
    RC_ASSERT(next.depth_tokens % options.grid_tokens == 0);
    RC_ASSERT(next.depth_tokens - before < options.min_spacing_tokens + 2 * options.grid_tokens);
    RC_ASSERT(next.reason != CheckpointReason::kChunk ||
              next.depth_tokens - before >= options.min_spacing_tokens);
    before = next.depth_tokens;
  }
  // The same prompt again replays less than a grid step, and the token that gives the logits.
  std::int64_t again = match.usable_tokens;
  for (const PlannedCheckpoint& next : planned) {
    if (next.depth_tokens < prompt) again = next.depth_tokens;
  }
  RC_ASSERT(prompt - 1 - again < options.grid_tokens);
}

}  // namespace
}  // namespace tandem::testing
