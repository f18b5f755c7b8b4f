// `tandem plan`: what fits into memory, said before anything is loaded.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/byte_size.h"
#include "commands.h"
#include "engine/engine.h"
#include "engine/weight_bytes.h"
#include "model/config.h"
#include "model/input.h"
#include "model_options.h"
#include "number_range.h"
#include "plan_report.h"

namespace tandem {
namespace {

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{4} << 20;

struct PlanOptions {
  ModelOptions model;  // its folder may be a configuration file
  CacheOptions cache;
  BudgetRule budget;
  std::string memory;
  std::optional<std::int64_t> context_tokens;
  std::optional<std::int64_t> requests;
  bool json = false;
};

struct PlannedModel {
  std::string name;
  ModelSpec spec;
  std::optional<Checkpoint> checkpoint;  // if the folder has weights
};

Result<PlannedModel> find_model(const ModelOptions& options) {
  const std::filesystem::path path = TRY(options.model_folder());
  PlannedModel model;
  model.name = model_name(path);
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    const std::string text = TRY(read_small_file(path, kMaxConfigBytes));
    model.spec = TRY(parse_config(text, path.string()));
    return model;
  }
  model.spec = TRY(read_config(path));
  if (std::filesystem::exists(path / "model.safetensors.index.json", error) ||
      std::filesystem::exists(path / "model.safetensors", error)) {
    model.checkpoint = TRY(Checkpoint::open(path));
  }
  return model;
}

// "80%" of all memory of this machine, or a size.
Result<std::int64_t> parse_memory(const std::string& text) {
  if (!text.ends_with('%')) {
    auto bytes = parse_bytes(text);
    if (!bytes) return invalid("--memory: {}", bytes.error().message);
    return bytes;
  }
  char* end = nullptr;
  const double percent = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size() - 1 || !(percent > 0 && percent <= 100)) {
    return invalid("--memory: expected a percentage above 0, up to 100%, got '{}'", text);
  }
  const SystemMemory memory = TRY(read_system_memory());
  return static_cast<std::int64_t>(static_cast<double>(memory.total_bytes) * percent / 100);
}

// The plan's budget and where it comes from.
Result<void> choose_budget(const PlanOptions& options, PlanReport& report) {
  if (!options.memory.empty()) {
    report.plan.budget_bytes = TRY(parse_memory(options.memory));
    report.budget_source = "--memory " + options.memory;
    return {};
  }
  const SystemMemory memory = TRY(read_system_memory());
  report.plan.budget_bytes =
      default_memory_budget(report.plan.costs, memory, report.weight_bytes, options.budget);
  if (report.plan.budget_bytes == 0) {
    return invalid(
        "no memory is left for the cache: the weights take {} on each rank, and {:g} of the {} "
        "available here is to hold both; plan for another machine with --memory",
        byte_text(report.weight_bytes), options.budget.memory_fraction,
        byte_text(memory.available_bytes));
  }
  report.budget_source =
      fmt::format("the default here, at most for {} requests", options.budget.max_running);
  return {};
}

Result<void> check_question(const PlanOptions& options, const MemoryPlan& plan) {
  const std::int64_t limit = plan.costs.context_limit_tokens;
  if (options.context_tokens && (*options.context_tokens < 1 || *options.context_tokens > limit)) {
    return invalid("--context {}: expected 1 to {}, the model's limit", *options.context_tokens,
                   limit);
  }
  if (options.requests && *options.requests < 1) {
    return invalid("--requests {}: expected at least 1", *options.requests);
  }
  return check_fits(plan, options.context_tokens.value_or(1), options.requests.value_or(1));
}

Result<void> plan(PlanOptions options) {
  options.cache.precision = options.model.chosen_precision();
  const PlannedModel model = TRY(find_model(options.model));
  const ModelSpec rank = TRY(spec_of_rank(model.spec, options.cache.tp_size));
  PlanReport report;
  report.model = model.name;
  report.architecture = model.spec.architecture;
  report.precision = options.model.precision;
  report.tp_size = options.cache.tp_size;
  report.plan.costs = TRY(cache_costs(model.spec, options.cache));
  report.weight_bytes = weight_bytes(rank, model.checkpoint ? &*model.checkpoint : nullptr);
  report.weight_source = model.checkpoint ? "files" : "configuration";
  TRY(choose_budget(options, report));
  TRY(check_question(options, report.plan));
  report.context_tokens = options.context_tokens;
  report.requests = options.requests;
  fmt::print("{}", options.json ? plan_json(report) : plan_text(report));
  return {};
}

void add_options(CLI::App& command, PlanOptions& options) {
  command.add_option("MODEL", options.model.folder,
                     "checkpoint folder, or a config.json alone [the bundled demo model]");
  command.add_option("--memory", options.memory,
                     "bytes for states and rows on each rank: 16GiB, 4096MiB, 2GB, or 50% of this "
                     "machine's memory [what `tandem serve` would take here]");
  command.add_option("--context", options.context_tokens,
                     "tokens of a request, prompt and answer: how many fit?");
  command.add_option("--requests", options.requests, "requests at once: how long can they be?");
  command.add_option("--tp-size", options.cache.tp_size, "ranks that share the heads")
      ->capture_default_str();
  command
      .add_option("--dcp-size", options.cache.dcp_size,
                  "ranks among them that share a request's rows by position")
      ->capture_default_str();
  options.cache.page_rows = EngineOptions().page_tokens;
  command.add_option("--page-size", options.cache.page_rows, "rows of one page on one rank")
      ->capture_default_str();
  options.model.add_precision(command);
  options.budget.max_running = EngineOptions().max_running;
  command
      .add_option("--mem-fraction-static", options.budget.memory_fraction,
                  "without --memory: share of the available memory for weights and cache")
      ->check(number_range(0.01, 1.0))
      ->capture_default_str();
  command
      .add_option("--max-running-requests", options.budget.max_running,
                  "without --memory: take no more than so many requests can use")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_flag("--json", options.json, "print one JSON object");
}

}  // namespace

void add_plan_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand(
      "plan", "Say what fits into memory: requests, context, states; loads nothing");
  command->footer(
      "Example: tandem plan kimi-k3/config.json --tp-size 8 --dcp-size 8 --memory 40GiB");
  add_options(*command, *options);
  command->callback([options, &exit_code] {
    const auto done = plan(*options);
    if (!done) exit_code = report_failure(done.error());
  });
}

}  // namespace tandem
