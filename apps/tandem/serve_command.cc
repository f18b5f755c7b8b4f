// `tandem serve`: the OpenAI-compatible server.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/log.h"
#include "commands.h"
#include "engine_flags.h"
#include "model_options.h"
#include "number_range.h"
#include "serve/server.h"
#include "served_memory.h"

namespace tandem {
namespace {

struct ServeOptions {
  std::vector<std::string> api_keys;
  std::string api_key_file;
  ModelOptions model;
  ServerOptions server;
  EngineFlags engine;
  double drain_timeout_s = 30;
  double max_body_mib = 64;
};

Result<std::vector<ApiKey>> all_keys(const ServeOptions& options) {
  std::vector<ApiKey> keys;
  if (!options.api_key_file.empty()) keys = TRY(read_api_keys(options.api_key_file));
  for (const std::string& secret : options.api_keys) keys.push_back({.secret = secret});
  return keys;
}

Result<void> serve(const ServeOptions& options) {
  const SystemClock clock;
  TRY(options.engine.check());
  auto keys = TRY(all_keys(options));
  ServedModelOptions loading{.folder = TRY(options.model.model_folder()),
                             .precision = options.model.chosen_precision(),
                             .kernels = &options.model.kernels(),
                             .loading = loading_options(),
                             .engine = options.engine.engine_options(options.model.threads)};
  const MemoryPlan plan =
      TRY(choose_memory(loading.folder, loading.precision, options.engine, loading.engine));
  log_info("{}", plan.summary());
  const auto model = TRY(load_served_model(loading, clock));
  ServerOptions server_options = options.server;
  server_options.api_keys = std::move(keys);
  server_options.drain_timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.drain_timeout_s * 1000));
  server_options.limits.max_body_bytes =
      static_cast<std::size_t>(options.max_body_mib * 1024 * 1024);
  const auto server = TRY(Server::start(*model, server_options));
  server->drain_on_signals();
  fmt::print("listening on {}\n", server->url());
  std::fflush(stdout);
  server->run();
  return {};
}

void add_options(CLI::App& command, ServeOptions& options) {
  command.add_option("model", options.model.folder, "checkpoint folder [the bundled demo model]");
  command.add_option("--host", options.server.host, "address to listen on")->capture_default_str();
  command.add_option("--port", options.server.port, "port to listen on; 0: a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command.add_option("--served-model-name", options.server.served_name,
                     "the model's name in requests and answers [the folder's name]");
  options.model.add_to(command);
  add_engine_flags(command, options.engine, FlagSet::kServe);

  constexpr const char* kKeys = "Keys";
  command.add_option("--api-key", options.api_keys, "a key that requests need; may be given again")
      ->allow_extra_args(false)  // else the model that follows would be one
      ->group(kKeys);
  command
      .add_option("--api-key-file", options.api_key_file,
                  "keys with names, shares and limits (docs/http.md, Keys)")
      ->group(kKeys);
  command
      .add_option("--admin-api-key", options.server.admin_key,
                  "the key that /flush_cache and /abort_request need, instead of the others")
      ->group(kKeys);

  constexpr const char* kLimits = "Limits";
  command.add_option("--max-body-mib", options.max_body_mib, "largest request body, in MiB")
      ->check(number_range(0.001, 4096.0))
      ->capture_default_str()
      ->group(kLimits);
  command
      .add_flag("--strict-fields", options.server.strict_fields,
                "refuse requests with fields that nobody knows; otherwise they are counted")
      ->group(kLimits);
  command
      .add_option("--drain-timeout", options.drain_timeout_s,
                  "seconds that running requests have left after SIGTERM or Ctrl-C; a second "
                  "signal ends at once")
      ->check(number_range(0.0, 86400.0))
      ->capture_default_str()
      ->group(kLimits);
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command =
      app.add_subcommand("serve", "Answer over HTTP as OpenAI's API does, many requests at once");
  command->footer(
      "Routes: POST /v1/chat/completions, /v1/completions, /v1/messages, /generate, GET "
      "/v1/models, /health, /metrics and more (docs/http.md); a web console at / (chat, and "
      "/#live for operators).\n"
      "Example: tandem serve --port 8000");
  add_options(*command, *options);
  command->callback([options, command, &exit_code] {
    print_lines(flag_notes(*command));
    const auto done = serve(*options);
    if (!done) exit_code = report_failure(done.error());
  });
}

}  // namespace tandem
