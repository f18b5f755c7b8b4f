// What one arena earns, next to static splits, when the load flips between 64 short and 4 very long
// requests and back. Simulated time over the real arena; flip_simulation.h gives the cost model.
// Prints the tables of bench/results/prefix-cache.md.
//
//   flip_load [SECONDS]     of simulated time each phase, 3,600 by default

#include <fmt/format.h>

#include <cstdlib>

#include "cache/flip_comparison.h"

namespace tandem {
namespace {

void print(const char* name, const FlipComparison& c) {
  fmt::print("\n{}; answer tokens a second, and requests that run\n\n", name);
  fmt::print(
      "| phase | joint | best split of the phase (states) | best fixed split ({} states) | joint / "
      "best | fixed / best | GB moved |\n|---|---|---|---|---|---|---|\n",
      c.fixed_states);
  for (std::size_t i = 0; i < c.phases.size(); ++i) {
    const PhaseResult& joint = c.joint[i];
    const PhaseResult& best = c.best_split[i];
    const PhaseResult& fixed = c.fixed_split[i];
    fmt::print(
        "| {} | {:.1f} ({:.1f}) | {:.1f} ({:.1f}; {}) | {:.1f} ({:.1f}) | {:.3f} | {:.3f} | {:.2f} "
        "|\n",
        c.phases[i].name, joint.answer_tokens_a_second, joint.running, best.answer_tokens_a_second,
        best.running, c.best_states[i], fixed.answer_tokens_a_second, fixed.running,
        joint.answer_tokens_a_second / best.answer_tokens_a_second,
        fixed.answer_tokens_a_second / best.answer_tokens_a_second,
        static_cast<double>(joint.moved_bytes) / 1e9);
  }
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  const double phase_ms = 1000 * (argc > 1 ? std::atof(argv[1]) : 3600);
  tandem::print("TP8", tandem::compare_flips(64, phase_ms));
  tandem::print("DCP8", tandem::compare_flips(512, phase_ms));
  return 0;
}
