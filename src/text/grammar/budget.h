// What compiling one grammar may cost.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace tandem {

// Bounds on one compilation. They count work rather than time, so that the same source compiles or
// is refused everywhere; a step takes up to a microsecond.
struct GrammarLimits {
  std::size_t source_bytes = std::size_t{1} << 20;
  std::int64_t steps = 2'000'000;
  std::int64_t states = 300'000;  // of all automata of the grammar, about 60 bytes each
};

namespace grammar {

// What is left of the limits while compiling. Single owner.
class Budget {
 public:
  explicit Budget(const GrammarLimits& limits)
      : steps_left_(limits.steps), states_left_(limits.states) {}

  // False once the budget is spent; the caller then gives up with exceeded().
  bool spend(std::int64_t steps) { return (steps_left_ -= steps) >= 0; }
  bool spend_state() { return --states_left_ >= 0 && spend(1); }

  static tl::unexpected<Status> exceeded() {
    return invalid("the grammar is too large to be compiled");
  }

 private:
  std::int64_t steps_left_;
  std::int64_t states_left_;
};

}  // namespace grammar
}  // namespace tandem
