// `tandem bench decode`: where the time of the model's steps goes on this machine.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/byte_size.h"
#include "bench_commands.h"
#include "engine/system_memory.h"
#include "engine/weight_bytes.h"
#include "measure/report.h"
#include "model_options.h"
#include "output_file.h"

namespace tandem {
namespace {

using namespace measure;  // NOLINT: this file is its command line

struct StepBenchOptions {
  ModelOptions model;
  std::uint64_t seed = 1;
  std::string json_file;
  // decode
  std::vector<std::int64_t> batches = {1, 8, 32};
  std::vector<std::int64_t> contexts = {256};
  std::int64_t steps = 32;
  std::int64_t warm_up = 4;
};

struct LoadedModel {
  std::string name;
  std::unique_ptr<Model> model;
  std::int64_t weight_bytes = 0;
};

Result<LoadedModel> load(const ModelOptions& options) {
  const std::filesystem::path folder = TRY(options.model_folder());
  LoadedModel loaded;
  loaded.name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  loaded.model =
      TRY(Model::load(folder, options.chosen_precision(), options.kernels(), loading_progress()));
  const Checkpoint checkpoint = TRY(Checkpoint::open(folder));
  loaded.weight_bytes = weight_bytes(loaded.model->spec(), &checkpoint);
  return loaded;
}

Setting setting_of(const StepBenchOptions& options, const LoadedModel& loaded, int threads) {
  return {.model = loaded.name,
          .architecture = loaded.model->spec().architecture,
          .precision = options.model.precision,
          .backend = options.model.backend,
          .threads = threads,
          .processor = processor_name(),
          .instruction_set = instruction_set_name(),
          .machine = {}};
}

// Before anything runs: a case that cannot be done should not cost the ones before it.
Result<void> check_requests(const Model& model, std::int64_t sequences, std::int64_t tokens,
                            std::string_view what) {
  const std::int64_t limit = model.spec().context_length;
  if (tokens > limit) {
    return invalid("{}: {} tokens with those to be measured, of at most {}", what, tokens, limit);
  }
  const std::int64_t bytes = request_bytes(model.memory().total, sequences, tokens);
  const SystemMemory memory = TRY(read_system_memory());
  if (bytes > memory.available_bytes) {
    return invalid("{}: {} requests of {} tokens take {}, and {} are available", what, sequences,
                   tokens, byte_text(bytes), byte_text(memory.available_bytes));
  }
  return {};
}

Result<void> decode(const StepBenchOptions& options) {
  const LoadedModel loaded = TRY(load(options.model));
  for (const std::int64_t batch : options.batches) {
    for (const std::int64_t context : options.contexts) {
      TRY(check_requests(*loaded.model, batch, context + options.warm_up + options.steps,
                         fmt::format("--batch {} --context {}", batch, context)));
    }
  }
  OutputFile json = TRY(OutputFile::open(options.json_file));
  ThreadTeam team(options.model.threads == 0 ? default_thread_count() : options.model.threads);
  StepReport report{.bench = "decode",
                    .setting = setting_of(options, loaded, team.threads()),
                    .weight_bytes = loaded.weight_bytes,
                    .cases = {}};
  report.setting.machine = TRY(measure_machine(team));
  const TokenSource tokens(loaded.model->spec().vocab_size, options.seed);
  const SystemClock clock;
  for (const std::int64_t batch : options.batches) {
    for (const std::int64_t context : options.contexts) {
      StepBench bench(*loaded.model, team, tokens, clock);
      report.cases.push_back(bench.decode({.batch = batch,
                                           .context = context,
                                           .steps = options.steps,
                                           .warm_up = options.warm_up}));
    }
  }
  fmt::print("{}", report_text(report));
  return json.write(report_json(report));
}

}  // namespace

void add_bench_decode_command(CLI::App& group, int& exit_code) {
  auto options = std::make_shared<StepBenchOptions>();
  CLI::App* command = group.add_subcommand(
      "decode",
      "Tokens a second of the model alone, without server and sampling, and where a step's time "
      "goes: stage by stage, with the bytes that the stage has to read and the FLOP that it has to "
      "do, held against what this machine reads and multiplies at best.");
  command->add_option("MODEL", options->model.folder, "checkpoint folder [the bundled demo model]");
  command->add_option("--batch", options->batches, "requests that take a step together")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 14))
      ->capture_default_str();
  command->add_option("--context", options->contexts, "tokens that each of them has already")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->capture_default_str();
  command->add_option("--tokens", options->steps, "steps to measure, one token a request each")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  options->model.add_to(*command);
  command->add_option("--seed", options->seed, "of the token ids")->capture_default_str();
  command->add_option("--json", options->json_file, "write the report for programs to this file");
  command->footer("Example: tandem bench decode --batch 1,8,32 --context 256,16384");
  command->callback([options, &exit_code] {
    const auto done = decode(*options);
    if (!done) exit_code = report_failure(done.error());
  });
}

}  // namespace tandem
