#include "serve/metrics_text.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

namespace tandem {
namespace {

// A text in Prometheus' format, taken apart.
struct Exposition {
  std::map<std::string, std::string> types;  // by family
  std::map<std::string, double> values;      // by series, labels included

  explicit Exposition(const std::string& text) {
    EXPECT_TRUE(text.ends_with('\n'));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) read(line);
  }

  double value(const std::string& series) const {
    const auto found = values.find(series);
    EXPECT_NE(found, values.end()) << series;
    return found == values.end() ? -1 : found->second;
  }

 private:
  void read(const std::string& line) {
    std::istringstream words(line);
    if (line.starts_with("# ")) {
      std::string hash, keyword, name, rest;
      words >> hash >> keyword >> name;
      std::getline(words >> std::ws, rest);
      if (keyword == "TYPE") {
        EXPECT_TRUE(types.emplace(name, rest).second) << name << " twice";
      } else {
        EXPECT_EQ(keyword, "HELP");
        EXPECT_FALSE(rest.empty()) << name;
      }
      return;
    }
    const std::size_t space = line.rfind(' ');
    ASSERT_NE(space, std::string::npos) << line;
    const std::string series = line.substr(0, space);
    EXPECT_TRUE(types.contains(series.substr(0, series.find('{')))) << series << " has no type";
    EXPECT_TRUE(values.emplace(series, std::stod(line.substr(space + 1))).second) << series;
  }
};

Exposition exposition(const MetricsInput& input) { return Exposition(metrics_text(input).value()); }

MetricsInput busy() {
  MetricsInput input{.prefill_chunk_tokens = 512, .context_tokens = 32768, .served_name = "demo"};
  EngineStatus& engine = input.engine;
  engine.geometry = {.budget_bytes = 11'000, .state_bytes = 1'000, .page_bytes = 100};
  engine.arena.states = {0, 3, 1, 2, 0};
  engine.arena.state_bytes = 6'000;
  engine.arena.page_bytes = 2'000;
  engine.arena.hole_bytes = 600;
  engine.arena.gap_bytes = 1'400;
  engine.arena_counters.moves = 4;
  engine.cache = {
      .states = 2, .pages = 10, .locked_states = 1, .locked_pages = 5, .stranded_pages = 3};
  engine.cache_counters.hit_tokens = 64;
  engine.cache_counters.replay_tokens = {0, 1, 2, 3};
  engine.cache_counters.planted = {1, 2, 3, 4, 5};
  engine.cache_counters.evicted_pages = {7, 8, 9};
  engine.cache_counters.path_states = {1, 0, 0, 0, 0, 0, 0, 2};
  engine.planner.snapshots_skipped = 6;
  engine.grid_tokens = 16;
  engine.running = 3;
  input.requests = {
      .ended = {5, 4, 3, 2}, .prompt_tokens = 200, .completion_tokens = 80, .cached_tokens = 50};
  return input;
}

TEST(MetricsText, every_series_is_there_from_the_start) {
  const Exposition fresh = exposition({.served_name = "demo"});
  const Exposition later = exposition(busy());
  for (const auto& [series, value] : fresh.values) EXPECT_EQ(value, 0) << series;
  const auto names = [](const Exposition& text) {
    std::set<std::string> out;
    for (const auto& [series, value] : text.values) out.insert(series);
    return out;
  };
  EXPECT_EQ(names(fresh), names(later));
}

TEST(MetricsText, counters_end_in_total_and_gauges_do_not) {
  for (const auto& [name, type] : exposition({}).types) {
    EXPECT_EQ(name.ends_with("_total"), type == "counter") << name << " is a " << type;
  }
}

TEST(MetricsText, labels_name_the_values_of_enumerations) {
  const Exposition text = exposition(busy());
  EXPECT_EQ(text.value(R"(tandem_mem_arena_bytes{kind="state"})"), 6000);
  EXPECT_EQ(text.value(R"(tandem_mem_arena_bytes{kind="gap"})"), 1400);
  EXPECT_EQ(text.value(R"(tandem_state_slots{owner="work"})"), 3);
  EXPECT_EQ(text.value(R"(tandem_state_slots{owner="tree"})"), 2);
  EXPECT_EQ(text.value(R"(tandem_cache_replay_tokens_total{reason="evicted"})"), 1);
  EXPECT_EQ(text.value(R"(tandem_cache_replay_tokens_total{reason="grid"})"), 3);
  EXPECT_EQ(text.value(R"(tandem_ckpt_planted_total{reason="branch"})"), 1);
  EXPECT_EQ(text.value(R"(tandem_ckpt_planted_total{reason="answer"})"), 5);
  EXPECT_EQ(text.value(R"(tandem_evict_total{kind="kv",why="useless"})"), 9);
  EXPECT_EQ(text.value(R"(tandem_path_states_total{states="128+"})"), 2);
  EXPECT_EQ(text.value(R"(tandem_snapshot_skipped_total{reason="memory"})"), 6);
  EXPECT_EQ(text.value(R"(tandem_requests_total{finish="stop"})"), 5);
  EXPECT_EQ(text.value(R"(tandem_requests_total{finish="error"})"), 2);
}

TEST(MetricsText, derived_values) {
  const Exposition text = exposition(busy());
  EXPECT_EQ(text.value("tandem_mem_joint_headroom_states"), 2);
  EXPECT_EQ(text.value("tandem_stranded_kv_bytes"), 300);
  EXPECT_EQ(text.value("tandem_cache_grid_tokens"), 16);
  EXPECT_EQ(text.value("tandem_prefill_chunk_tokens"), 512);
  EXPECT_EQ(text.value(R"(sglang:cache_hit_rate{model_name="demo"})"), 0.25);
  // Of 8000 bytes taken, one state and five pages of the cache are free for the asking; usable are
  // 11000 rounded down to the alignment, less the sink of one state.
  const double usable = static_cast<double>(busy().engine.geometry.usable_bytes());
  EXPECT_NEAR(text.value(R"(sglang:token_usage{model_name="demo"})"), 6500 / usable, 1e-9);
}

TEST(MetricsText, speaks_to_dashboards_made_for_other_servers) {
  const Exposition text = exposition(busy());
  EXPECT_EQ(text.value(R"(sglang:num_requests_total{model_name="demo"})"), 14);
  EXPECT_EQ(text.value(R"(sglang:num_aborted_requests_total{model_name="demo"})"), 3);
  EXPECT_EQ(text.value(R"(vllm:num_requests_running{model_name="demo"})"), 3);
  EXPECT_EQ(text.value(R"(vllm:prefix_cache_queries_total{model_name="demo"})"), 200);
  EXPECT_EQ(text.value(R"(vllm:prefix_cache_hits_total{model_name="demo"})"), 50);
  EXPECT_EQ(text.value(R"(vllm:request_success_total{model_name="demo",finished_reason="length"})"),
            4);
  EXPECT_EQ(text.value(R"(vllm:kv_cache_usage_perc{model_name="demo"})"),
            text.value(R"(sglang:token_usage{model_name="demo"})"));
}

TEST(MetricsText, escapes_what_a_name_may_hold) {
  const std::string text = metrics_text({.served_name = "a\"b\\c\nd"}).value();
  EXPECT_NE(text.find(R"({model_name="a\"b\\c\nd"})"), std::string::npos);
}

}  // namespace
}  // namespace tandem
