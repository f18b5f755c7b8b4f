// Random operations on random small arenas, with a check of everything after each.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "memory/arena_testing.h"

namespace tandem::testing {
namespace {

rc::Gen<Operation> any_operation() {
  return rc::gen::map(
      rc::gen::tuple(rc::gen::inRange<int>(0, Operation::kKinds),
                     rc::gen::resize(100, rc::gen::inRange<std::uint32_t>(0, 1000)),
                     rc::gen::resize(100, rc::gen::inRange<std::uint32_t>(0, 1000))),
      [](const std::tuple<int, std::uint32_t, std::uint32_t>& drawn) {
        const auto [kind, a, b] = drawn;
        return Operation{.kind = static_cast<Operation::Kind>(kind), .a = a, .b = b};
      });
}

// From an arena that holds one state and one page up, in units of 64 bytes; sizes of either kind
// on either side of the other.
ArenaGeometry any_geometry() {
  const std::int64_t state = *rc::gen::resize(100, rc::gen::inRange<std::int64_t>(1, 14));
  const std::int64_t page = *rc::gen::resize(100, rc::gen::inRange<std::int64_t>(1, 14));
  const std::int64_t extra = *rc::gen::inRange<std::int64_t>(0, 160);
  return {.budget_bytes = 64 * (std::max(state, page) + state + page + extra),
          .state_bytes = 64 * state,
          .page_bytes = 64 * page};
}

std::vector<Operation> any_operations() {
  return *rc::gen::scale(20.0, rc::gen::container<std::vector<Operation>>(any_operation()));
}

RC_GTEST_PROP(ArenaPropertyTest, agrees_with_its_shadow_after_every_operation, ()) {
  ArenaShadow shadow(any_geometry());
  for (const Operation& operation : any_operations()) {
    Result<void> agrees = shadow.apply(operation);
    if (agrees) agrees = shadow.check();
    if (!agrees) RC_FAIL(fmt::format("{}", agrees.error().message));
  }
  const Result<void> agrees = shadow.finish();
  if (!agrees) RC_FAIL(agrees.error().message);
}

// The checks of the other property publish after each operation; here moves pile up over many, so
// that moves of moved entries and of both kinds follow one another.
RC_GTEST_PROP(ArenaPropertyTest, moves_of_many_operations_carry_all_contents, ()) {
  ArenaShadow shadow(any_geometry());
  for (const Operation& operation : any_operations()) {
    if (operation.kind == Operation::kPublish && operation.a % 4 != 0) continue;
    const Result<void> agrees = shadow.apply(operation);
    if (!agrees) RC_FAIL(agrees.error().message);
  }
  const Result<void> agrees = shadow.finish();
  if (!agrees) RC_FAIL(agrees.error().message);
}

}  // namespace
}  // namespace tandem::testing
