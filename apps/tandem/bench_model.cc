#include "bench_model.h"

#include <CLI/CLI.hpp>

#include "base/byte_size.h"
#include "engine/system_memory.h"
#include "engine/weight_bytes.h"
#include "measure/step_bench.h"

namespace tandem {

void BenchModelOptions::add_to(CLI::App& command) {
  command.add_option("MODEL", model.folder, "checkpoint folder [the bundled demo model]");
  model.add_to(command);
  command.add_option("--seed", seed, "of the token ids")->capture_default_str();
  command.add_option("--json", json_file, "write the report for programs to this file");
}

Result<BenchModel> load_bench_model(const BenchModelOptions& options) {
  BenchModel loaded;
  loaded.folder = TRY(options.model.model_folder());
  loaded.name = model_name(loaded.folder);
  loaded.model = TRY(Model::load(loaded.folder, options.model.chosen_precision(),
                                 options.model.kernels(), loading_options()));
  loaded.weight_bytes = weight_bytes(loaded.model->spec(), &loaded.model->weights().checkpoint);
  return loaded;
}

int bench_threads(const BenchModelOptions& options) {
  return options.model.threads == 0 ? default_thread_count() : options.model.threads;
}

measure::Setting bench_setting(const BenchModelOptions& options, const BenchModel& loaded,
                               const measure::MachineRates& machine) {
  return {.model = loaded.name,
          .architecture = loaded.model->spec().architecture,
          .precision = options.model.precision,
          .backend = options.model.backend,
          .threads = bench_threads(options),
          .processor = measure::processor_name(),
          .instruction_set = measure::instruction_set_name(),
          .machine = machine};
}

Result<void> check_requests(const Model& model, std::int64_t sequences, std::int64_t tokens,
                            const std::string& what) {
  const std::int64_t limit = model.spec().context_length;
  if (tokens > limit) {
    return invalid("{}: a request gets {} tokens long, the model's limit is {}", what, tokens,
                   limit);
  }
  const std::int64_t bytes = measure::request_bytes(model.memory().total, sequences, tokens);
  const SystemMemory memory = TRY(read_system_memory());
  if (bytes > memory.available_bytes) {
    return invalid("{}: {} requests of {} tokens take {}, and {} are available", what, sequences,
                   tokens, byte_text(bytes), byte_text(memory.available_bytes));
  }
  return {};
}

}  // namespace tandem
