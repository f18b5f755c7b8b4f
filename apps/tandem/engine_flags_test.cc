#include "engine_flags.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "support/cases.h"

namespace tandem {
namespace {

using Arguments = std::vector<std::string>;

struct Parsed {
  EngineFlags flags;
  std::vector<std::string> notes;
};

// Throws CLI::ParseError as the program's parser does.
Parsed parse(Arguments arguments, FlagSet set = FlagSet::kServe) {
  Parsed parsed;
  CLI::App app;
  add_engine_flags(app, parsed.flags, set);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  app.parse(arguments);
  parsed.notes = flag_notes(app);
  return parsed;
}

// Every flag, a value that is taken, one that is not, and whether a note says that it does nothing.
struct FlagCase : NamedCase {
  Arguments good;
  Arguments bad;  // empty: a flag without a value
  bool noted = false;
  bool of_run = false;
};

class EngineFlagTest : public testing::TestWithParam<FlagCase> {};

TEST_P(EngineFlagTest, takes_a_good_value_and_refuses_a_bad_one) {
  const FlagCase& row = GetParam();
  EXPECT_NO_THROW(parse(row.good)) << row.good[0];
  if (row.bad.empty()) return;
  EXPECT_THROW(parse(row.bad), CLI::ParseError) << row.bad[1];
}

TEST_P(EngineFlagTest, says_once_if_it_does_nothing) {
  const auto notes = parse(GetParam().good).notes;
  ASSERT_EQ(notes.size(), GetParam().noted ? 1u : 0u);
  if (GetParam().noted) expect_one_line(notes[0], {GetParam().good[0] + ": "});
}

TEST_P(EngineFlagTest, belongs_to_run_unless_it_is_about_queues) {
  if (GetParam().of_run) {
    EXPECT_NO_THROW(parse(GetParam().good, FlagSet::kRun));
  } else {
    EXPECT_THROW(parse(GetParam().good, FlagSet::kRun), CLI::ParseError);
  }
}

constexpr bool kNoted = true, kEffective = false, kRun = true, kServeOnly = false;
const FlagCase kFlags[] = {
    {{"mem_fraction_static"},
     {"--mem-fraction-static", "0.5"},
     {"--mem-fraction-static", "1.5"},
     kEffective,
     kRun},
    {{"context_length"}, {"--context-length", "4096"}, {"--context-length", "0"}, kEffective, kRun},
    {{"page_size"}, {"--page-size", "64"}, {"--page-size", "0"}, kEffective, kRun},
    {{"disable_radix_cache"}, {"--disable-radix-cache"}, {}, kEffective, kRun},
    {{"mamba_track_interval"},
     {"--mamba-track-interval", "256"},
     {"--mamba-track-interval", "-1"},
     kEffective,
     kRun},
    {{"mamba_max_states_per_path"},
     {"--mamba-max-states-per-path", "-1"},
     {"--mamba-max-states-per-path", "0"},
     kEffective,
     kRun},
    {{"mamba_ssm_dtype"},
     {"--mamba-ssm-dtype", "float32"},
     {"--mamba-ssm-dtype", "int3"},
     kEffective,
     kRun},
    {{"chunked_prefill_size"},
     {"--chunked-prefill-size", "8192"},
     {"--chunked-prefill-size", "-2"},
     kEffective,
     kRun},
    {{"max_prefill_tokens"},
     {"--max-prefill-tokens", "16384"},
     {"--max-prefill-tokens", "0"},
     kEffective,
     kRun},
    {{"disable_overlap_schedule"}, {"--disable-overlap-schedule"}, {}, kEffective, kRun},
    {{"tp_size"}, {"--tp-size", "1"}, {"--tp-size", "x"}, kEffective, kRun},
    {{"dcp_size"}, {"--dcp-size", "1"}, {"--dcp-size", "x"}, kEffective, kRun},
    {{"max_running_requests"},
     {"--max-running-requests", "48"},
     {"--max-running-requests", "0"},
     kEffective,
     kServeOnly},
    {{"max_running"}, {"--max-running", "48"}, {"--max-running", "0"}, kEffective, kServeOnly},
    {{"max_queued_requests"},
     {"--max-queued-requests", "0"},
     {"--max-queued-requests", "-1"},
     kEffective,
     kServeOnly},
    {{"schedule_policy"},
     {"--schedule-policy", "lpm"},
     {"--schedule-policy", "best"},
     kEffective,
     kServeOnly},
    {{"schedule_conservativeness"},
     {"--schedule-conservativeness", "0.3"},
     {"--schedule-conservativeness", "-1"},
     kEffective,
     kServeOnly},
    {{"enable_priority_scheduling"}, {"--enable-priority-scheduling"}, {}, kEffective, kServeOnly},
    {{"schedule_low_priority_values_first"},
     {"--schedule-low-priority-values-first"},
     {},
     kEffective,
     kServeOnly},
    {{"priority_scheduling_preemption_threshold"},
     {"--priority-scheduling-preemption-threshold", "5"},
     {"--priority-scheduling-preemption-threshold", "-5"},
     kEffective,
     kServeOnly},
    {{"retraction_policy"},
     {"--retraction-policy", "length"},
     {"--retraction-policy", "newest"},
     kNoted,
     kServeOnly},
    {{"watchdog_timeout"},
     {"--watchdog-timeout", "300"},
     {"--watchdog-timeout", "0"},
     kNoted,
     kServeOnly},
    {{"mamba_full_memory_ratio"},
     {"--mamba-full-memory-ratio", "0.9"},
     {"--mamba-full-memory-ratio", "x"},
     kNoted,
     kRun},
    {{"max_mamba_cache_size"},
     {"--max-mamba-cache-size", "100"},
     {"--max-mamba-cache-size", "-1"},
     kNoted,
     kRun},
    {{"mamba_radix_cache_strategy"},
     {"--mamba-radix-cache-strategy", "extra_buffer_lazy"},
     {"--mamba-radix-cache-strategy", "more"},
     kNoted,
     kRun},
    {{"radix_eviction_policy"},
     {"--radix-eviction-policy", "lru"},
     {"--radix-eviction-policy", "oldest"},
     kNoted,
     kRun},
    {{"num_continuous_decode_steps"},
     {"--num-continuous-decode-steps", "4"},
     {"--num-continuous-decode-steps", "0"},
     kNoted,
     kRun},
    {{"enable_unified_memory"}, {"--enable-unified-memory"}, {}, kNoted, kRun},
    {{"enable_mixed_chunk"}, {"--enable-mixed-chunk"}, {}, kNoted, kRun},
    {{"enable_int8_mamba_checkpoint"}, {"--enable-int8-mamba-checkpoint"}, {}, kNoted, kRun},
    {{"enable_hierarchical_cache"}, {"--enable-hierarchical-cache"}, {}, kNoted, kRun},
};
INSTANTIATE_TEST_SUITE_P(All, EngineFlagTest, testing::ValuesIn(kFlags), CaseName());

TEST(EngineFlagsTest, no_flags_are_the_engines_defaults) {
  const EngineOptions options = parse({}).flags.engine_options(3);
  const EngineOptions defaults;
  EXPECT_EQ(options.threads, 3);
  EXPECT_EQ(options.prefill_chunk, defaults.prefill_chunk);
  EXPECT_EQ(options.max_running, defaults.max_running);
  EXPECT_EQ(options.max_queued, defaults.max_queued);
  EXPECT_EQ(options.page_tokens, defaults.page_tokens);
  EXPECT_EQ(options.prefix_cache, defaults.prefix_cache);
  EXPECT_EQ(options.track_interval, defaults.track_interval);
  EXPECT_EQ(options.max_states_per_path, defaults.max_states_per_path);
  EXPECT_EQ(options.loop, defaults.loop);
}

TEST(EngineFlagsTest, flags_reach_the_engines_options) {
  const auto flags = parse({"--chunked-prefill-size", "512", "--max-running-requests", "48",
                            "--max-queued-requests", "7", "--page-size", "32",
                            "--disable-radix-cache", "--mamba-track-interval", "256",
                            "--mamba-max-states-per-path", "12", "--disable-overlap-schedule"})
                         .flags;
  const EngineOptions options = flags.engine_options(1);
  EXPECT_EQ(options.prefill_chunk, 512);
  EXPECT_EQ(options.max_running, 48);
  EXPECT_EQ(options.max_queued, 7);
  EXPECT_EQ(options.page_tokens, 32);
  EXPECT_FALSE(options.prefix_cache);
  EXPECT_EQ(options.track_interval, 256);
  EXPECT_EQ(options.max_states_per_path, 12);
  EXPECT_EQ(options.loop, LoopMode::kSimple);
}

TEST(EngineFlagsTest, a_chunk_is_at_most_what_a_step_may_prefill) {
  const auto chunk = [](Arguments arguments) {
    return parse(std::move(arguments)).flags.engine_options(1).prefill_chunk;
  };
  EXPECT_EQ(chunk({"--chunked-prefill-size", "-1"}), 16'384);
  EXPECT_EQ(chunk({"--chunked-prefill-size", "-1", "--max-prefill-tokens", "1000"}), 1000);
  EXPECT_EQ(chunk({"--chunked-prefill-size", "4096", "--max-prefill-tokens", "1000"}), 1000);
}

TEST(EngineFlagsTest, flags_of_the_queue_reach_the_planner) {
  const auto flags = parse({"--schedule-policy", "lpm", "--schedule-conservativeness", "0.5",
                            "--enable-priority-scheduling", "--schedule-low-priority-values-first",
                            "--priority-scheduling-preemption-threshold", "3",
                            "--retraction-policy", "priority", "--watchdog-timeout", "20.5",
                            "--context-length", "999", "--mem-fraction-static", "0.7"})
                         .flags;
  const EngineOptions options = flags.engine_options(1);
  EXPECT_EQ(options.policy, QueuePolicy::kLongestPrefix);
  EXPECT_EQ(options.estimate_deviations, 0.5);
  EXPECT_TRUE(options.priorities);
  EXPECT_TRUE(options.low_priority_first);
  EXPECT_EQ(options.preempt_above, 3);
  EXPECT_EQ(parse({"--priority-scheduling-preemption-threshold", "3"})
                .flags.engine_options(1)
                .preempt_above,
            std::nullopt);
  EXPECT_EQ(flags.retraction_policy, "priority");
  EXPECT_EQ(flags.watchdog_timeout_s, 20.5);
  EXPECT_EQ(flags.context_tokens, 999);
  EXPECT_EQ(flags.memory_fraction, 0.7);
}

TEST(EngineFlagsTest, what_is_valid_and_not_supported_is_refused_in_one_line) {
  const auto refusal = [](Arguments arguments) {
    const auto checked = parse(std::move(arguments)).flags.check();
    EXPECT_FALSE(checked);
    EXPECT_EQ(checked.error().code, StatusCode::kInvalidArgument);
    return checked.error().message;
  };
  expect_one_line(refusal({"--tp-size", "2"}), {"--tp-size 2", "tandem plan"});
  expect_one_line(refusal({"--tp-size", "0"}), {"--tp-size 0"});
  expect_one_line(refusal({"--dcp-size", "8"}), {"--dcp-size 8"});
  expect_one_line(refusal({"--mamba-ssm-dtype", "bfloat16"}), {"--mamba-ssm-dtype bfloat16"});
  EXPECT_TRUE(parse({"--tp-size", "1", "--dcp-size", "1"}).flags.check());
}

}  // namespace
}  // namespace tandem
