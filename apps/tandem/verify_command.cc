// `tandem verify`: a self-test on the user's own machine.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "commands.h"
#include "engine/verify.h"
#include "engine/verify_prompts.h"
#include "model_options.h"

namespace tandem {
namespace {

struct Arguments {
  ModelOptions model;
  VerifyOptions verify;
  std::int64_t prompts = 40;
  std::int64_t longest = 300;
};

Result<VerifyReport> run(Arguments& arguments) {
  const auto folder = TRY(arguments.model.model_folder());
  std::shared_ptr<const Model> model = TRY(Model::load(
      folder, arguments.model.chosen_precision(), arguments.model.kernels(), loading_options()));
  const auto prompts = TRY(verify_prompts(folder, model->spec(), arguments.prompts,
                                          arguments.longest, arguments.verify.seed));
  static char label[] = "verifying";
  arguments.verify.threads = arguments.model.threads;
  arguments.verify.progress = [](double share) { show_progress(share, label); };
  return verify(model, prompts, arguments.verify, SystemClock());
}

}  // namespace

void add_verify_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "verify", "Self-test: caching, chunking and batching change no answer on this machine");
  command->footer("Example: tandem verify models/demo --precision exact");
  command->add_option("MODEL", arguments->model.folder,
                      "checkpoint folder; default: the demo model");
  arguments->model.add_to(*command);
  command->add_option("--prompts", arguments->prompts, "how many prompts")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->add_option("--longest", arguments->longest, "tokens of the longest prompt")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command->add_option("--tokens", arguments->verify.answer_tokens, "tokens of each answer")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_option("--page-size", arguments->verify.page_tokens, "tokens in a page of rows")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command->add_option("--seed", arguments->verify.seed, "of the prompts")->capture_default_str();
  command->callback([arguments, &exit_code] {
    const auto report = run(*arguments);
    if (!report) {
      exit_code = report_failure(report.error());
      return;
    }
    fmt::print("{}", to_text(*report));
    exit_code = report->passed() ? 0 : 1;
  });
}

}  // namespace tandem
