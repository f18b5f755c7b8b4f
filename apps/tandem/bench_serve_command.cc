// `tandem bench serve`: load on a server that speaks OpenAI's API, and how it held.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "loadgen/load_run.h"
#include "loadgen/report.h"
#include "loadgen/target.h"
#include "loadgen/workload.h"
#include "model_options.h"
#include "number_range.h"
#include "output_file.h"

namespace tandem {
namespace {

using namespace loadgen;  // NOLINT: this file is its command line

constexpr const char* kLoad = "How fast";
constexpr const char* kWork = "What is asked";
constexpr const char* kOutput = "Output";

struct BenchOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string endpoint = "chat";
  LoadRunOptions load = {};
  std::optional<double> rate = {};
  std::optional<std::int64_t> requests = {};
  std::string workload = "synthetic";
  std::string dataset;
  SyntheticOptions synthetic = {};
  std::string extra_body;
  std::string json_file;
  std::string svg_file;
};

// The members of a JSON object, without its braces.
Result<std::string> members_of(const std::string& text) {
  if (text.empty()) return std::string();
  const auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return invalid("--extra-body: expected a JSON object, got '{}'", text);
  const std::string object = json.dump();
  return object.substr(1, object.size() - 2);
}

Result<std::unique_ptr<Workload>> choose_workload(const BenchOptions& options) {
  if (!options.dataset.empty()) {
    return read_dataset(options.dataset, options.synthetic.answer_tokens);
  }
  SyntheticOptions synthetic = options.synthetic;
  if (options.workload != "shared-prefix") synthetic.groups = 0;
  if (options.workload != "multi-turn") synthetic.turns = 1;
  return synthetic_workload(synthetic);
}

std::string workload_text(const BenchOptions& options) {
  const SyntheticOptions& work = options.synthetic;
  if (!options.dataset.empty()) {
    return fmt::format("{}, answers of up to {}", options.dataset, work.answer_tokens);
  }
  std::string text =
      fmt::format("{}: prompts of {}, answers of up to {} (±{:.0f} %), seed {}", options.workload,
                  work.prompt_tokens, work.answer_tokens, work.spread * 100, work.seed);
  if (options.workload == "shared-prefix") {
    text += fmt::format(", {} groups with prefixes of {}", work.groups, work.prefix_tokens);
  }
  if (options.workload == "multi-turn") text += fmt::format(", {} turns", work.turns);
  return text;
}

std::string load_text(const BenchOptions& options) {
  return fmt::format("{}; {}", workload_text(options),
                     options.rate ? fmt::format("{:g} arrivals a second", *options.rate)
                                  : fmt::format("{} at a time", options.load.concurrency));
}

// What the bounds on requests and time mean for conversations.
void set_bounds(BenchOptions& options) {
  const bool multi_turn = options.dataset.empty() && options.workload == "multi-turn";
  const std::int64_t turns = multi_turn ? options.synthetic.turns : 1;
  constexpr std::int64_t kDefaultRequests = 100;
  if (!options.requests && options.load.duration_s == 0) options.requests = kDefaultRequests;
  options.load.conversations = options.requests ? (*options.requests + turns - 1) / turns : 0;
}

void show(const LoadProgress& progress) {
  fmt::print(stderr, "\r{:.1f} s: {} answered, {} open, {} errors, {:.0f} pieces/s\x1b[K",
             progress.elapsed_s, progress.answered, progress.open, progress.errors,
             static_cast<double>(progress.pieces) / progress.elapsed_s);
  std::fflush(stderr);
}

Result<int> bench(BenchOptions options) {
  LoadRunOptions& load = options.load;
  load.target = TRY(parse_target_url(options.url));
  load.endpoint = options.endpoint == "chat" ? Endpoint::kChat : Endpoint::kCompletions;
  load.rate_per_s = options.rate;
  load.seed = options.synthetic.seed;
  load.extra_fields = TRY(members_of(options.extra_body));
  set_bounds(options);
  const auto workload = TRY(choose_workload(options));
  OutputFile json = TRY(OutputFile::open(options.json_file));
  OutputFile svg = TRY(OutputFile::open(options.svg_file));
  if (load.model.empty()) load.model = TRY(first_model(load.target, load.api_key, 30));

  const bool terminal = isatty(STDERR_FILENO) != 0;
  const auto progress = [terminal](const LoadProgress& now) {
    if (terminal) show(now);
  };
  const LoadRunResult result = TRY(run_load(load, *workload, progress));
  if (terminal) fmt::print(stderr, "\r\x1b[K");
  const LoadReport report =
      summarise(result, fmt::format("{} at {}", load.model, load.target.url()), load_text(options));
  fmt::print("{}", report_text(report));
  TRY(json.write(report_json(report)));
  TRY(svg.write(report_svg(report)));
  return report.answered > 0 ? 0 : 1;
}

void add_load_options(CLI::App& command, BenchOptions& options) {
  auto* rate = command
                   .add_option("--rate", options.rate,
                               "open loop: so many conversations begin each second, as a Poisson "
                               "process, however slow the answers are")
                   ->check(number_range(1e-3, 1e6))
                   ->group(kLoad);
  command
      .add_option("--concurrency", options.load.concurrency,
                  "closed loop: so many conversations at a time")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 16))
      ->capture_default_str()
      ->excludes(rate)
      ->group(kLoad);
  command
      .add_option("--requests", options.requests,
                  "stop after so many, of multi-turn in whole conversations [100 without "
                  "--duration]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->group(kLoad);
  command
      .add_option("--duration", options.load.duration_s,
                  "begin nothing new after so many seconds; what is open is waited for")
      ->check(number_range(0.001, 1e7))
      ->group(kLoad);
  command.add_option("--timeout", options.load.timeout_s, "seconds that one answer may take")
      ->check(number_range(0.001, 1e6))
      ->capture_default_str()
      ->group(kLoad);
}

void add_work_options(CLI::App& command, BenchOptions& options) {
  SyntheticOptions& work = options.synthetic;
  constexpr std::int64_t kMax = 1 << 24;
  work.groups = 8;
  work.prefix_tokens = 512;
  work.turns = 4;
  const auto count = [&](const char* name, std::int64_t& value, const char* what) {
    command.add_option(name, value, what)
        ->check(CLI::Range(std::int64_t{1}, kMax))
        ->capture_default_str()
        ->group(kWork);
  };
  auto* workload =
      command
          .add_option("--workload", options.workload,
                      "synthetic: prompts with nothing in common; shared-prefix: a long beginning "
                      "shared by each of --groups; multi-turn: conversations of --turns, each "
                      "answer in the next prompt")
          ->check(CLI::IsMember({"synthetic", "shared-prefix", "multi-turn"}))
          ->capture_default_str()
          ->group(kWork);
  command
      .add_option("--dataset", options.dataset,
                  "ask from a file instead: JSON lines with messages or a prompt, and max_tokens "
                  "if they like; or a JSON array as ShareGPT's")
      ->excludes(workload)
      ->group(kWork);
  count("--prompt-tokens", work.prompt_tokens,
        "words of a prompt, about a token each; the report has the server's count");
  count("--answer-tokens", work.answer_tokens, "max_tokens of an answer");
  command.add_option("--spread", work.spread, "both vary by this share, evenly")
      ->check(number_range(0.0, 1.0))
      ->capture_default_str()
      ->group(kWork);
  count("--groups", work.groups, "shared-prefix: how many prefixes");
  count("--prefix-tokens", work.prefix_tokens, "shared-prefix: words of each");
  count("--turns", work.turns, "multi-turn: questions of a conversation");
  command.add_option("--seed", work.seed, "of arrivals, lengths and words")
      ->capture_default_str()
      ->group(kWork);
  command
      .add_option("--extra-body", options.extra_body,
                  "a JSON object whose members go into every request: "
                  "'{\"temperature\": 0, \"ignore_eos\": true}'")
      ->group(kWork);
}

void add_options(CLI::App& command, BenchOptions& options) {
  command.add_option("--url", options.url, "the server; what follows /v1 is added")
      ->capture_default_str();
  command.add_option("--model", options.load.model, "[the first of /v1/models]");
  command.add_option("--api-key", options.load.api_key, "sent as a bearer token");
  command.add_option("--endpoint", options.endpoint, "/v1/chat/completions or /v1/completions")
      ->check(CLI::IsMember({"chat", "completions"}))
      ->capture_default_str();
  add_load_options(command, options);
  add_work_options(command, options);
  command.add_option("--json", options.json_file, "write the report for programs to this file")
      ->group(kOutput);
  command.add_option("--svg", options.svg_file, "draw it into this file")->group(kOutput);
}

}  // namespace

void add_bench_serve_command(CLI::App& group, int& exit_code) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = group.add_subcommand(
      "serve",
      "Load on any server that speaks OpenAI's API, streaming, and a report of it: time to the "
      "first token, between pieces of an answer, to its end; throughput, cached tokens, errors. "
      "Times are the client's, from when a request was due. An answer without status 200, a "
      "finish reason and [DONE] is an error and in no figure.");
  command->footer(
      "Examples:\n"
      "  tandem bench serve --requests 20 --concurrency 4\n"
      "  tandem bench serve --url http://10.0.0.5:30000 --rate 5 --duration 60 --svg load.svg\n"
      "  tandem bench serve --workload multi-turn --turns 6 --concurrency 8\n"
      "Ctrl-C ends the run and reports what there is. Exit code 1 if nothing was answered.");
  add_options(*command, *options);
  command->callback([options, &exit_code] {
    const auto done = bench(*options);
    exit_code = done ? *done : report_failure(done.error());
  });
}

}  // namespace tandem
