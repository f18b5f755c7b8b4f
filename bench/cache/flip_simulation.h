// An engine in simulated time while its load flips between many short and few long requests.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/flip_memory.h"

namespace tandem {

// Milliseconds of a step. Chosen so that both loads gain from every request that runs; measured on
// nothing.
struct StepCost {
  double fixed_ms = 12;           // weights are read whatever the batch
  double sequence_ms = 0.08;      // each sequence that decodes: states are read and written
  double prompt_token_ms = 0.05;  // each token of a prompt
  double bytes_per_ms = 4e9;      // rows of decoding sequences are read, moved entries read and
                                  // written
};

// Closed loop: so many clients, each of which sends its next request when the last one is answered.
struct FlipLoad {
  const char* name = "";
  std::size_t clients = 0;
  std::int64_t least_prompt = 0;
  std::int64_t most_prompt = 0;
  std::int64_t least_answer = 0;
  std::int64_t most_answer = 0;
};

struct FlipOptions {
  ArenaGeometry geometry = {};
  std::int64_t page_tokens = 64;      // of the prompt, whichever rank has their rows
  std::int64_t states_a_request = 2;  // one works, one takes the snapshot
  std::int64_t prompt_tokens_a_step = 2048;
  StepCost cost = {};
  double phase_ms = 0;
  std::uint64_t seed = 1;
};

struct PhaseResult {
  double answer_tokens_a_second = 0;
  double prompt_tokens_a_second = 0;
  double running = 0;  // requests, mean over time
  std::int64_t moved_bytes = 0;
};

// One phase each load, without a pause: what still runs when the load flips is finished under the
// next one, what only waits is withdrawn. First come, first served.
std::vector<PhaseResult> simulate_flips(FlipMemory& memory, const std::vector<FlipLoad>& phases,
                                        const FlipOptions& options);

}  // namespace tandem
