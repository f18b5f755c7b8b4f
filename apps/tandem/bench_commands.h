// The subcommands of `tandem bench`; each leaves its exit code in `exit_code`.
#pragma once

namespace CLI {
class App;
}

namespace tandem {

void add_bench_decode_command(CLI::App& group, int& exit_code);
void add_bench_prefill_command(CLI::App& group, int& exit_code);
void add_bench_serve_command(CLI::App& group, int& exit_code);

}  // namespace tandem
