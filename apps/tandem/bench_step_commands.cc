// `tandem bench decode` and `tandem bench prefill`: where the time of the model's steps goes on
// this machine.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "bench_model.h"
#include "commands.h"
#include "measure/report.h"
#include "output_file.h"
#include "text/file.h"
#include "text/tokenizer.h"

namespace tandem {
namespace {

using namespace measure;  // NOLINT: this file is its command line

struct StepOptions {
  BenchModelOptions common;
  std::string text_file;
};

struct DecodeCommand : StepOptions {
  std::vector<std::int64_t> batches = {1, 8, 32};
  std::vector<std::int64_t> contexts = {256};
  DecodeOptions each;
};

struct PrefillCommand : StepOptions {
  std::vector<std::int64_t> prompts = {512, 2048};
  PrefillOptions each;
};

Result<TokenSource> make_tokens(const StepOptions& options, const BenchModel& loaded) {
  const std::int64_t vocab_size = loaded.model->spec().vocab_size;
  if (options.text_file.empty()) return TokenSource(vocab_size, options.common.seed);
  const std::string text = TRY(read_text_file(options.text_file));
  const auto tokenizer = TRY(Tokenizer::load(loaded.folder, vocab_size));
  std::vector<TokenId> ids = tokenizer->encode_plain(text);
  if (ids.empty()) return invalid("--text {}: no text in it", options.text_file);
  return TokenSource(std::move(ids));
}

// Runs `measure(bench)` between two measurements of the machine, prints, and writes the JSON.
// `measure` returns the cases.
template <class Measure>
Result<void> run(const std::string& bench_name, const StepOptions& options,
                 const BenchModel& loaded, const Measure& measure) {
  const TokenSource tokens = TRY(make_tokens(options, loaded));
  OutputFile json = TRY(OutputFile::open(options.common.json_file));
  ThreadTeam team(bench_threads(options.common));
  MachineProbe machine(team);
  TRY(machine.measure());
  const SystemClock clock;
  StepBench bench(*loaded.model, team, tokens, clock);
  std::vector<StepCase> cases = measure(bench);
  TRY(machine.measure());
  const StepReport report{.bench = bench_name,
                          .setting = bench_setting(options.common, loaded, machine.rates()),
                          .weight_bytes = loaded.weight_bytes,
                          .cases = std::move(cases)};
  fmt::print("{}", report_text(report));
  return json.write(report_json(report));
}

Result<void> decode(const DecodeCommand& options) {
  const BenchModel loaded = TRY(load_bench_model(options.common));
  std::vector<DecodeOptions> runs;
  for (const std::int64_t batch : options.batches) {
    for (const std::int64_t context : options.contexts) {
      DecodeOptions one = options.each;
      one.batch = batch;
      one.context = context;
      TRY(check_requests(*loaded.model, batch, context + one.warm_up + one.steps,
                         fmt::format("--batch {} --context {}", batch, context)));
      runs.push_back(one);
    }
  }
  return run("decode", options, loaded, [&](StepBench& bench) {
    std::vector<StepCase> cases;
    for (const DecodeOptions& one : runs) cases.push_back(bench.decode(one));
    return cases;
  });
}

Result<void> prefill(const PrefillCommand& options) {
  const BenchModel loaded = TRY(load_bench_model(options.common));
  std::vector<PrefillOptions> runs;
  for (const std::int64_t prompt : options.prompts) {
    PrefillOptions one = options.each;
    one.prompt = prompt;
    TRY(check_requests(*loaded.model, 1, prompt, fmt::format("--prompt {}", prompt)));
    runs.push_back(one);
  }
  return run("prefill", options, loaded, [&](StepBench& bench) {
    std::vector<StepCase> cases;
    for (const PrefillOptions& one : runs) cases.push_back(bench.prefill(one));
    return cases;
  });
}

constexpr std::int64_t kMaxTokens = std::int64_t{1} << 40;

CLI::Option* add_count(CLI::App& command, const char* name, std::int64_t& value, const char* what,
                       std::int64_t least = 1) {
  return command.add_option(name, value, what)
      ->check(CLI::Range(least, std::int64_t{1} << 20))
      ->capture_default_str();
}

void add_counts(CLI::App& command, const char* name, std::vector<std::int64_t>& values,
                std::int64_t most, const char* what) {
  command.add_option(name, values, what)
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, most))
      ->capture_default_str();
}

void add_step_options(CLI::App& command, StepOptions& options) {
  options.common.add_to(command);
  command.add_option("--text", options.text_file,
                     "take the tokens from this text, instead of at random: how many experts a "
                     "batch reaches depends on what is said");
}

// What the tables of both commands mean.
constexpr const char* kReading =
    "Times are of the forward pass alone: no server, no sampling. 'of reads' is the share of this "
    "machine's read bandwidth that the bytes of weights, states and rows come to, 'of FMA' that of "
    "its multiply-add rate, 'of bound' that of the time which the larger of both allows. All are "
    "measured in the same run with the same threads; a model that fits the caches may pass 100 %.\n"
    "docs/benchmarks.md has the details.\n";

template <class Options>
void call(CLI::App& command, std::shared_ptr<Options> options,
          Result<void> (*run_it)(const Options&), int& exit_code) {
  command.callback([options, run_it, &exit_code] {
    const auto done = run_it(*options);
    if (!done) exit_code = report_failure(done.error());
  });
}

}  // namespace

void add_bench_decode_command(CLI::App& group, int& exit_code) {
  auto options = std::make_shared<DecodeCommand>();
  CLI::App* command = group.add_subcommand(
      "decode", "Tokens a second of a batch that answers, and where a step's time goes");
  add_counts(*command, "--batch", options->batches, 1 << 14, "requests that share a step");
  add_counts(*command, "--context", options->contexts, kMaxTokens,
             "tokens that each of them has already");
  add_count(*command, "--tokens", options->each.steps,
            "steps to measure, one token a request each; the table has their median");
  add_count(*command, "--warm-up", options->each.warm_up, "steps before those", 0);
  add_step_options(*command, *options);
  command->footer(std::string(kReading) +
                  "Example: tandem bench decode --batch 1,8,32 --context 256,16384");
  call(*command, options, decode, exit_code);
}

void add_bench_prefill_command(CLI::App& group, int& exit_code) {
  auto options = std::make_shared<PrefillCommand>();
  CLI::App* command = group.add_subcommand(
      "prefill", "Tokens a second of a prompt that is read, and where its time goes");
  add_counts(*command, "--prompt", options->prompts, kMaxTokens, "tokens of a prompt");
  add_count(*command, "--chunk", options->each.chunk,
            "tokens of a step; the server's --chunked-prefill-size");
  add_count(*command, "--repetitions", options->each.repetitions,
            "prompts to measure; the table has their median");
  add_count(*command, "--warm-up", options->each.warm_up, "prompts before those", 0);
  add_step_options(*command, *options);
  command->footer(std::string(kReading) +
                  "Example: tandem bench prefill --prompt 512,2048 --threads 1");
  call(*command, options, prefill, exit_code);
}

}  // namespace tandem
