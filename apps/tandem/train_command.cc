// `tandem train`: pre-training of small models and reinforcement learning of adapters.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "commands.h"
#include "model/input.h"
#include "model_options.h"
#include "train/run/train_run.h"

namespace tandem {
namespace {

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{1} << 20;

Result<void> run(const std::string& file) {
  const std::string text = TRY(read_small_file(file, kMaxConfigBytes));
  const train::TrainConfig config = TRY(train::parse_train_config(text, file));
  const auto listener = [](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  };
  return train::run_training(config, listener, SystemClock());
}

}  // namespace

void add_train_command(CLI::App& app, int& exit_code) {
  auto file = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "train", "Pre-train a small model, or train an adapter by reinforcement learning");
  command->footer("docs/train.md lists the keys of CONFIG. A run that was stopped goes on.");
  command->add_option("CONFIG", *file, "a TOML file")->required();
  command->callback([file, &exit_code] {
    const auto done = run(*file);
    if (!done) exit_code = report_failure(done.error());
  });
}

}  // namespace tandem
