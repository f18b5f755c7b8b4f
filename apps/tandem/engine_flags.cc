#include "engine_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include "number_range.h"

namespace tandem {
namespace {

constexpr const char* kMemory = "Memory and cache";
constexpr const char* kSteps = "Steps and queue";
constexpr const char* kCompatible = "Taken for SGLang's sake";
constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxRequests = 1 << 20;

struct Note {
  const char* flag;
  const char* why;
};

constexpr const char* kOnePool = "ignored, states and rows share one pool";
constexpr const char* kAlwaysOn = "always on";

constexpr Note kNotes[] = {
    {"--enable-hierarchical-cache", "ignored, the cache is in the host's memory already"},
    {"--enable-int8-mamba-checkpoint", "ignored, cached states keep all their bits"},
    {"--enable-mixed-chunk", kAlwaysOn},
    {"--enable-unified-memory", kAlwaysOn},
    {"--mamba-full-memory-ratio", kOnePool},
    {"--mamba-radix-cache-strategy", "ignored, snapshots take memory only when they are made"},
    {"--max-mamba-cache-size", kOnePool},
    {"--num-continuous-decode-steps", "ignored, the next step is planned while one runs"},
    {"--radix-eviction-policy", "ignored, what saves the least time per byte goes first"},
    {"--retraction-policy", "ignored, whose restart costs least gives way"},
    {"--watchdog-timeout", "taken, but without effect so far"},
};

// Either -1 or at least 1.
std::string check_minus_one_or_positive(const std::string& text) {
  const bool valid = text == "-1" || CLI::Range(std::int64_t{1}, kMaxTokens)(text).empty();
  return valid ? "" : "expected -1 or at least 1, got " + text;
}

void add_memory_flags(CLI::App& command, EngineFlags& flags) {
  command
      .add_option("--mem-fraction-static", flags.memory_fraction,
                  "share of the available memory for weights and cache together")
      ->check(number_range(0.01, 1.0))
      ->capture_default_str()
      ->group(kMemory);
  command
      .add_option("--context-length", flags.context_tokens,
                  "tokens, prompt and answer, that memory must hold of a request [the model's "
                  "limit]")
      ->check(CLI::Range(std::int64_t{1}, kMaxTokens))
      ->group(kMemory);
  command.add_option("--page-size", flags.page_tokens, "tokens whose rows share a page")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str()
      ->group(kMemory);
  command
      .add_flag_callback(
          "--disable-radix-cache", [&flags] { flags.prefix_cache = false; },
          "compute every prompt from its start")
      ->group(kMemory);
  command
      .add_option("--mamba-track-interval", flags.track_interval_tokens,
                  "tokens between the states kept of an answer; 0: as short as the cache allows")
      ->check(CLI::Range(std::int64_t{0}, kMaxTokens))
      ->capture_default_str()
      ->group(kMemory);
  command
      .add_option("--mamba-max-states-per-path", flags.max_states_per_path,
                  "cached states along one prompt; -1: no cap")
      ->check(check_minus_one_or_positive)
      ->capture_default_str()
      ->group(kMemory);
  command.add_option("--mamba-ssm-dtype", flags.state_dtype, "of recurrent states: float32 only")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}))
      ->capture_default_str()
      ->group(kMemory);
}

void add_step_flags(CLI::App& command, EngineFlags& flags) {
  command
      .add_option("--chunked-prefill-size", flags.prefill_chunk_tokens,
                  "prompt tokens in one step; -1: as many as --max-prefill-tokens")
      ->check(check_minus_one_or_positive)
      ->capture_default_str()
      ->group(kSteps);
  command
      .add_option("--max-prefill-tokens", flags.max_prefill_tokens,
                  "prompt tokens in one step, whatever the chunk")
      ->check(CLI::Range(std::int64_t{1}, kMaxTokens))
      ->capture_default_str()
      ->group(kSteps);
  command
      .add_flag_callback(
          "--disable-overlap-schedule", [&flags] { flags.overlap = false; },
          "plan a step only when the one before it is done, for debugging")
      ->group(kSteps);
  command.add_option("--tp-size", flags.tp_size, "ranks that share the heads: 1 only")
      ->capture_default_str()
      ->group(kSteps);
  command.add_option("--dcp-size", flags.dcp_size, "ranks that share a request's rows: 1 only")
      ->capture_default_str()
      ->group(kSteps);
}

void add_queue_flags(CLI::App& command, EngineFlags& flags) {
  command
      .add_option("--max-running-requests,--max-running", flags.max_running,
                  "requests that share a step")
      ->check(CLI::Range(std::int64_t{1}, kMaxRequests))
      ->capture_default_str()
      ->group(kSteps);
  command
      .add_option("--max-queued-requests,--max-queued", flags.max_queued,
                  "requests that may wait; more are answered with 429")
      ->check(CLI::Range(std::int64_t{0}, kMaxRequests))
      ->capture_default_str()
      ->group(kSteps);
  command.add_option("--schedule-policy", flags.schedule_policy, "who is next")
      ->check(CLI::IsMember(
          {"auto", "fcfs", "lpm", "dfs-weight", "hrrn", "shortest-prefill-first", "lof", "random"}))
      ->capture_default_str()
      ->group(kSteps);
  command
      .add_option("--schedule-conservativeness", flags.schedule_conservativeness,
                  "how carefully the length of answers is guessed")
      ->check(number_range(0.0, 100.0))
      ->capture_default_str()
      ->group(kSteps);
  command
      .add_flag("--enable-priority-scheduling", flags.priority_scheduling,
                "requests may carry a priority; higher goes first")
      ->group(kSteps);
  command
      .add_flag("--schedule-low-priority-values-first", flags.low_priority_values_first,
                "lower goes first instead")
      ->group(kSteps);
  command
      .add_option("--priority-scheduling-preemption-threshold", flags.preemption_threshold,
                  "by how much a priority must differ to interrupt a running request")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str()
      ->group(kSteps);
  command
      .add_option("--retraction-policy", flags.retraction_policy,
                  "who gives way if memory runs out: whose restart costs least, whose answer is "
                  "shortest, or whose priority is lowest")
      ->check(CLI::IsMember({"cost", "length", "priority"}))
      ->capture_default_str()
      ->group(kSteps);
  command
      .add_option("--watchdog-timeout", flags.watchdog_timeout_s,
                  "seconds that a step may take before it is reported")
      ->check(number_range(0.001, 1e9))
      ->capture_default_str()
      ->group(kSteps);
}

// The value is checked and dropped.
template <typename Check>
void add_ignored(CLI::App& command, const char* name, const Check& check) {
  command.add_option(name, CLI::callback_t([](const CLI::results_t&) { return true; }))
      ->check(check)
      ->group(kCompatible);
}

void add_compatible_flags(CLI::App& command) {
  add_ignored(command, "--mamba-full-memory-ratio", CLI::NonNegativeNumber);
  add_ignored(command, "--max-mamba-cache-size", CLI::Range(1, 1 << 30));
  add_ignored(command, "--mamba-radix-cache-strategy",
              CLI::IsMember({"auto", "no_buffer", "extra_buffer", "extra_buffer_lazy"}));
  add_ignored(command, "--radix-eviction-policy",
              CLI::IsMember({"lru", "lfu", "slru", "priority"}));
  add_ignored(command, "--num-continuous-decode-steps", CLI::Range(1, 1 << 30));
  for (const char* name : {"--enable-unified-memory", "--enable-mixed-chunk",
                           "--enable-int8-mamba-checkpoint", "--enable-hierarchical-cache"}) {
    command.add_flag(name)->group(kCompatible);
  }
}

}  // namespace

void add_engine_flags(CLI::App& command, EngineFlags& flags, FlagSet set) {
  add_memory_flags(command, flags);
  add_step_flags(command, flags);
  if (set == FlagSet::kServe) add_queue_flags(command, flags);
  add_compatible_flags(command);
}

std::vector<std::string> flag_notes(const CLI::App& command) {
  std::vector<std::string> notes;
  for (const Note& note : kNotes) {
    const CLI::Option* option = command.get_option_no_throw(note.flag);
    if (option != nullptr && option->count() > 0) {
      notes.push_back(fmt::format("{}: {}", note.flag, note.why));
    }
  }
  return notes;
}

Result<void> EngineFlags::check() const {
  if (tp_size != 1) {
    return invalid("--tp-size {}: one rank only is supported; `tandem plan` can ask about more",
                   tp_size);
  }
  if (dcp_size != 1) {
    return invalid("--dcp-size {}: one rank only is supported; `tandem plan` can ask about more",
                   dcp_size);
  }
  if (state_dtype != "float32") {
    return invalid("--mamba-ssm-dtype {}: not supported; recurrent states are float32",
                   state_dtype);
  }
  return {};
}

EngineOptions EngineFlags::engine_options(int threads) const {
  return {
      .threads = threads,
      .prefill_chunk = prefill_chunk_tokens > 0 ? std::min(prefill_chunk_tokens, max_prefill_tokens)
                                                : max_prefill_tokens,
      .max_running = max_running,
      .max_queued = max_queued,
      .page_tokens = page_tokens,
      .prefix_cache = prefix_cache,
      .track_interval = track_interval_tokens,
      .max_states_per_path = max_states_per_path > 0 ? max_states_per_path : 0,
      .loop = overlap ? LoopMode::kOverlapped : LoopMode::kSimple,
      .estimate_deviations = schedule_conservativeness,
      // The parser let known names through only.
      .policy = parse_queue_policy(schedule_policy).value(),
      .priorities = priority_scheduling,
      .low_priority_first = low_priority_values_first,
      .preempt_above = priority_scheduling ? std::optional(static_cast<int>(preemption_threshold))
                                           : std::nullopt};
}

}  // namespace tandem
