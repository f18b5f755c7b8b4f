// The engine's options on the command line, under the names that users of SGLang know.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"

namespace CLI {
class App;
}

namespace tandem {

// What was asked for. Fields without a counterpart in EngineOptions are kept for the parts that
// read them; until then flag_notes says that they have no effect.
struct EngineFlags {
  // Memory.
  double memory_fraction = 0.8;  // of what is available, for weights and cache
  std::optional<std::int64_t>
      context_tokens;  // that a request must have room for; the model's limit
  std::int64_t page_tokens = EngineOptions().page_tokens;
  bool prefix_cache = true;
  std::int64_t track_interval_tokens = EngineOptions().track_interval;  // 0: the cache's grid
  std::int64_t max_states_per_path = -1;                                // -1: no cap
  std::string state_dtype = "float32";

  // Steps.
  std::int64_t prefill_chunk_tokens = EngineOptions().prefill_chunk;  // -1: as max_prefill_tokens
  std::int64_t max_prefill_tokens = 16'384;
  bool overlap = true;

  // The queue.
  std::int64_t max_running = EngineOptions().max_running;
  std::int64_t max_queued = EngineOptions().max_queued;
  std::string schedule_policy = "auto";
  double schedule_conservativeness = 1;  // how far above the mean an answer's length is guessed
  bool priority_scheduling = false;
  bool low_priority_values_first = false;
  std::int64_t preemption_threshold = 10;  // difference of priorities
  std::string retraction_policy = "cost";
  double watchdog_timeout_s = 300;

  // Ranks.
  std::int64_t tp_size = 1;
  std::int64_t dcp_size = 1;

  // kInvalidArgument for values that are valid and not supported here.
  Result<void> check() const;
  // memory_bytes is left to choose_memory (served_memory.h).
  EngineOptions engine_options(int threads) const;
};

// kRun answers one request at a time: nothing of queues.
enum class FlagSet { kServe, kRun };

// `flags` must outlive the parsing.
void add_engine_flags(CLI::App& command, EngineFlags& flags, FlagSet set);

// After parsing: one line, "--flag: why", for every flag given that has no effect.
std::vector<std::string> flag_notes(const CLI::App& command);

}  // namespace tandem
