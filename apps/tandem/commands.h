// Every subcommand registers itself with the parser and leaves its exit code in `exit_code`.
#pragma once

namespace CLI {
class App;
}

namespace tandem {

void add_bench_command(CLI::App& app, int& exit_code);
// Of `tandem bench`, whose parser is `group`.
void add_bench_decode_command(CLI::App& group, int& exit_code);
void add_bench_prefill_command(CLI::App& group, int& exit_code);
void add_bench_serve_command(CLI::App& group, int& exit_code);

void add_make_random_command(CLI::App& app, int& exit_code);
void add_plan_command(CLI::App& app, int& exit_code);
void add_run_command(CLI::App& app, int& exit_code);
void add_serve_command(CLI::App& app, int& exit_code);
void add_train_command(CLI::App& app, int& exit_code);
void add_verify_command(CLI::App& app, int& exit_code);

}  // namespace tandem
