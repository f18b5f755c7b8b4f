// The `tandem` program: one subcommand a file.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "commands.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Serves hybrid-attention language models (Kimi K3, Kimi Linear) from one native program.",
      "tandem");
  app.set_version_flag("--version", TANDEM_VERSION);
  app.require_subcommand(1);
  app.footer(
      "`tandem COMMAND --help` explains a command. Exit codes: 0 done, 2 bad input, 1 failure.");

  int exit_code = 0;
  tandem::add_make_random_command(app, exit_code);
  tandem::add_plan_command(app, exit_code);
  tandem::add_run_command(app, exit_code);
  tandem::add_serve_command(app, exit_code);
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
  return exit_code;
}
