// `tandem bench`: measurements, one subcommand each.
#include <CLI/CLI.hpp>

#include "commands.h"

namespace tandem {

void add_bench_command(CLI::App& app, int& exit_code) {
  CLI::App* group = app.add_subcommand(
      "bench", "Measure: decode and prefill time the model here, serve loads a running server");
  group->require_subcommand(1);
  add_bench_decode_command(*group, exit_code);
  add_bench_prefill_command(*group, exit_code);
  add_bench_serve_command(*group, exit_code);
}

}  // namespace tandem
