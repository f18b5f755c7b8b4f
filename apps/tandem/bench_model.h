// What `tandem bench decode`, `prefill` and `kernels` share: the model that is measured and the
// options that choose it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "measure/report.h"
#include "model_options.h"

namespace tandem {

struct BenchModelOptions {
  ModelOptions model;
  std::uint64_t seed = 1;
  std::string json_file;

  // MODEL, --precision, --backend, --threads, --seed, --json.
  void add_to(CLI::App& command);
};

struct BenchModel {
  std::string name;  // of the folder
  std::filesystem::path folder;
  std::unique_ptr<Model> model;
  std::int64_t weight_bytes = 0;  // as `tandem plan` counts them
};

Result<BenchModel> load_bench_model(const BenchModelOptions& options);

// 0: one a processor.
int bench_threads(const BenchModelOptions& options);

measure::Setting bench_setting(const BenchModelOptions& options, const BenchModel& loaded,
                               const measure::MachineRates& machine);

// Before anything runs: a case that cannot be done should not cost those before it.
// kInvalidArgument, with `what` in front, for requests that are longer than the model allows or
// take more memory than is available.
Result<void> check_requests(const Model& model, std::int64_t sequences, std::int64_t tokens,
                            const std::string& what);

}  // namespace tandem
