// The `tandem` program: one subcommand a file.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include "commands.h"

namespace {

// The number of a closed standard stream would go to the next file or socket that is opened, which
// would then be read or written in its place. Reading from this one ends at once; writing fails.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) == -1 && open("/dev/null", O_RDONLY) == -1) return;
  }
}

// An answer that nobody could read is a failure.
int exit_code_after_output(int exit_code) {
  const bool failed_before = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !failed_before) return exit_code;
  std::fprintf(stderr, "tandem: standard output cannot be written: %s\n", std::strerror(errno));
  return exit_code == 0 ? 1 : exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Serves hybrid-attention language models (Kimi K3, Kimi Linear) from one native program.",
      "tandem");
  app.set_version_flag("--version", TANDEM_VERSION);
  app.require_subcommand(1);
  app.footer(
      "`tandem COMMAND --help` explains a command. Exit codes: 0 done, 2 bad input, 1 failure.");

  occupy_closed_streams();
  int exit_code = 0;
  tandem::add_bench_command(app, exit_code);
  tandem::add_make_random_command(app, exit_code);
  tandem::add_plan_command(app, exit_code);
  tandem::add_run_command(app, exit_code);
  tandem::add_serve_command(app, exit_code);
  tandem::add_train_command(app, exit_code);
  tandem::add_verify_command(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 prints help and messages itself; its own codes become ours.
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tandem: %s\n", error.what());
    return 1;
  }
  return exit_code_after_output(exit_code);
}
