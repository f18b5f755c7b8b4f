// Token hit rates of the prefix cache and of other policies on the trace of branching agents, for
// three seeds and three ways to lay out the memory. Prints the tables of
// bench/results/prefix-cache.md.
//
//   agent_trace [--turns N] [--svg FILE]     4,000 turns by default

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "cache/bar_chart.h"
#include "cache/comparison.h"

namespace tandem {
namespace {

constexpr std::uint32_t kSeeds[] = {7, 23, 42};

struct Options {
  std::size_t turns = 4000;
  std::string svg;
};

struct Series {
  const char* name;
  double (*rate)(const Comparison&);
};
constexpr Series kSeries[] = {
    {"reference-like", [](const Comparison& c) { return c.reference.hit_rate(); }},
    {"best static split", [](const Comparison& c) { return c.best_split.hit_rate(); }},
    {"joint", [](const Comparison& c) { return c.joint.earnings.hit_rate(); }},
    {"offline greedy", [](const Comparison& c) { return c.offline.hit_rate(); }},
    {"offline bound", [](const Comparison& c) { return c.offline_bound; }},
    {"infinite", [](const Comparison& c) { return c.infinite.hit_rate(); }},
};

void print_policy(std::string_view name, const Earnings& earned) {
  fmt::print("| {} | {:.4f} | {:.4f} | {:.2f} % | {:.4f} |\n", name, earned.hit_rate(),
             earned.row_tokens / earned.prompt_tokens, 100 * earned.lost_to_state(),
             earned.time_share());
}

void print(std::uint32_t seed, const Deployment& deployment, const Comparison& c) {
  fmt::print("\n{}, seed {}: a state weighs {:.0f} tokens; the cache is {:.0f} % of all text\n\n",
             deployment.name, seed, deployment.shape.state_tokens(), 100 * deployment.share);
  fmt::print(
      "| policy | token hit rate | with rows | lost to missing state | prefill time |\n"
      "|---|---|---|---|---|\n");
  print_policy("reference-like", c.reference);
  print_policy(fmt::format("best static split: {:.0f} % states, {} rows", 100 * c.split.state_share,
                           c.split.rows == RowOrder::kOldest ? "oldest" : "least valuable"),
               c.best_split);
  const Earnings& joint = c.joint.earnings;
  print_policy("joint, the real cache", joint);
  print_policy("offline, greedy", c.offline);
  print_policy("infinite", c.infinite);
  const double hit = joint.hit_rate();
  fmt::print(
      "\njoint / best split {:.3f}, / reference-like {:.2f}, / infinite {:.3f}, / offline greedy "
      "{:.3f}, / offline bound ({:.4f}) {:.3f}\n",
      hit / c.best_split.hit_rate(), hit / c.reference.hit_rate(), hit / c.infinite.hit_rate(),
      hit / c.offline.hit_rate(), c.offline_bound, hit / c.offline_bound);
}

int run(const Options& options) {
  std::vector<std::string> names;
  for (const Series& series : kSeries) names.emplace_back(series.name);
  std::vector<BarGroup> groups;
  for (const Deployment& deployment :
       {tensor_parallel_8(), context_parallel_8(512), context_parallel_8(64)}) {
    BarGroup group{.name = deployment.name, .values = std::vector<double>(names.size())};
    for (const std::uint32_t seed : kSeeds) {
      const AgentWorkload workload = make_agent_workload(seed, options.turns);
      const Comparison comparison = compare(workload, deployment);
      print(seed, deployment, comparison);
      for (std::size_t i = 0; i < names.size(); ++i) {
        group.values[i] += kSeries[i].rate(comparison) / std::size(kSeeds);
      }
    }
    groups.push_back(std::move(group));
  }
  if (options.svg.empty()) return 0;
  std::ofstream file(options.svg);
  file << bar_chart_svg("Token hit rate on branching agents, mean of three seeds", names, groups);
  file.close();
  if (!file) fmt::print(stderr, "{} cannot be written\n", options.svg);
  return file ? 0 : 1;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  tandem::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const bool has_value = i + 1 < argc;
    if (name == "--turns" && has_value) {
      options.turns = static_cast<std::size_t>(std::atoll(argv[++i]));
    } else if (name == "--svg" && has_value) {
      options.svg = argv[++i];
    } else {
      fmt::print(stderr, "usage: agent_trace [--turns N] [--svg FILE]\n");
      return 2;
    }
  }
  return tandem::run(options);
}
