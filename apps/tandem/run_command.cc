// `tandem run`: one answer in the terminal, or a chat.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <random>

#include "base/log.h"
#include "chat_session.h"
#include "commands.h"
#include "id_session.h"
#include "model_options.h"
#include "run_options.h"
#include "served_memory.h"

namespace tandem {
namespace {

// "1,2,3" or "1 2 3".
Result<std::vector<TokenId>> parse_ids(const std::string& text) {
  std::vector<TokenId> ids;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at != end) {
    if (*at == ',' || *at == ' ') {
      ++at;
      continue;
    }
    TokenId id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc())
      return invalid("--input-ids: expected token ids such as 1,2,3, got '{}'", at);
    ids.push_back(id);
    at = next;
  }
  return ids;
}

SamplingParams sampling(const RunOptions& options, const ServedModel& model) {
  SamplingParams params = model.default_sampling();
  params.temperature = options.temperature.value_or(params.temperature);
  params.top_p = options.top_p.value_or(params.top_p);
  params.top_k = options.top_k.value_or(params.top_k);
  params.min_p = options.min_p.value_or(params.min_p);
  params.seed = options.seed ? *options.seed : std::random_device()();
  return params;
}

Result<void> run(const RunOptions& options) {
  const SystemClock clock;
  TRY(options.engine.check());
  ServedModelOptions serving{.folder = TRY(options.model.model_folder()),
                             .precision = options.model.chosen_precision(),
                             .kernels = &options.model.kernels(),
                             .loading = loading_options(),
                             .engine = options.engine.engine_options(options.model.threads)};
  serving.engine.max_running = 1;
  TRY(choose_memory(serving.folder, serving.precision, options.engine, serving.engine));
  const auto model = TRY(load_served_model(serving, clock));
  const SamplingParams params = sampling(options, *model);
  if (!options.input_ids.empty()) {
    const auto ids = TRY(parse_ids(options.input_ids));
    return run_ids(*model, options, params, ids);
  }
  if (!model->chat_format) {
    return invalid("{} has no tiktoken.model, so it takes token ids: use --input-ids 1,2,3",
                   serving.folder.string());
  }
  ChatSession session(*model, options, params);
  return options.prompt ? session.answer_once(*options.prompt) : session.converse();
}

void add_options(CLI::App& command, RunOptions& options) {
  command.add_option("-p,--prompt", options.prompt, "ask this and exit; without it, a chat begins");
  command.add_option("-m,--model", options.model.folder,
                     "checkpoint folder [the bundled demo model]");
  command.add_option("--system", options.system, "system message before the conversation");
  command
      .add_option("--effort", options.effort,
                  "how much to think: low, medium, high, max, none (no thinking), unset (say "
                  "nothing of it)")
      ->check(CLI::IsMember({"low", "medium", "high", "max", "none", "unset"}))
      ->capture_default_str();
  command.add_option("--input-ids", options.input_ids,
                     "token ids in, token ids out; needs no tokenizer");

  constexpr const char* kSampling = "Sampling (defaults: the model's generation_config.json)";
  command.add_option("--temperature", options.temperature, "0 takes the likeliest token each time")
      ->group(kSampling);
  command.add_option("--top-p", options.top_p, "keep the likeliest tokens up to this mass")
      ->group(kSampling);
  command.add_option("--top-k", options.top_k, "keep this many of the likeliest tokens")
      ->group(kSampling);
  command.add_option("--min-p", options.min_p, "drop tokens below this share of the likeliest")
      ->group(kSampling);
  command.add_option("--seed", options.seed, "same seed, same text; random if not given")
      ->group(kSampling);
  command.add_option("--max-tokens", options.max_tokens, "end the answer after so many tokens")
      ->check(CLI::Range(1, 1 << 30))
      ->group(kSampling);

  constexpr const char* kOutput = "Output";
  command.add_flag("--show-thinking", options.show_thinking, "print the thinking too")
      ->group(kOutput);
  command.add_flag("--stats", options.show_stats, "print tokens and speed on stderr")
      ->group(kOutput);
  command.add_flag("--json", options.json, "add a last line: the answer as one JSON object")
      ->group(kOutput);
  options.model.add_to(command);
  add_engine_flags(command, options.engine, FlagSet::kRun);
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command =
      app.add_subcommand("run", "Answer in the terminal: one prompt with -p, else a chat");
  command->footer(
      "Example: tandem run -p \"What is 4738 + 2965?\" --show-thinking --temperature 0");
  add_options(*command, *options);
  command->callback([options, command, &exit_code] {
    print_lines(flag_notes(*command));
    set_log_level(LogLevel::kWarning);
    const auto done = run(*options);
    if (!done) exit_code = report_failure(done.error());
  });
}

}  // namespace tandem
