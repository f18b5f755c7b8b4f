// `tandem make-random`: a checkpoint with random weights of any supported configuration.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "commands.h"
#include "model/make_random.h"
#include "model_options.h"

namespace tandem {
namespace {

struct Arguments {
  std::string config;
  std::string folder;
  MakeRandomOptions options;
};

}  // namespace

void add_make_random_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "make-random", "Write a checkpoint with random weights, for tests and benchmarks");
  command->footer(
      "Example: tandem make-random kimi-k3/config.json /data/k3-4l --layers 4 --seed 1");
  command->add_option("CONFIG", arguments->config, "config.json, or a folder with one")->required();
  command->add_option("OUT", arguments->folder, "folder to write, empty or new")->required();
  command->add_option("--layers", arguments->options.layers, "keep only the first layers")
      ->check(CLI::Range(1, 1 << 30));
  command->add_option("--seed", arguments->options.seed, "same seed, same bytes")
      ->capture_default_str();
  command->callback([arguments, &exit_code] {
    static char label[] = "writing the checkpoint";
    arguments->options.threads = default_thread_count();
    arguments->options.progress = show_progress;
    arguments->options.progress_context = label;
    const auto made =
        make_random_checkpoint(arguments->config, arguments->folder, arguments->options);
    if (!made) exit_code = report_failure(made.error());
  });
}

}  // namespace tandem
