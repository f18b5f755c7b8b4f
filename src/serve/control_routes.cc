#include "serve/control_routes.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "serve/json_dump.h"
#include "serve/json_fields.h"
#include "serve/model_routes.h"
#include "serve/openai_error.h"

namespace tandem {
namespace {

using Json = OrderedJson;

constexpr double kMaxFlushWaitS = 60;
constexpr double kFlushWaitS = 1;  // a client knows of its answer before the step has ended
constexpr std::chrono::milliseconds kFlushPoll{5};

EntryCounts evicted(const PrefixCounters& counters) {
  const auto sum = [](const auto& values) {
    return std::accumulate(values.begin(), values.end(), std::int64_t{0});
  };
  return {sum(counters.evicted_states), sum(counters.evicted_pages)};
}

EntryCounts flush(Engine& engine) {
  EntryCounts freed;
  engine.inspect([&](EngineInternals inside) {
    const EntryCounts before = evicted(inside.cache.counters());
    while (inside.cache.evict_one()) {
    }
    const EntryCounts after = evicted(inside.cache.counters());
    freed = {after.states - before.states, after.pages - before.pages};
  });
  return freed;
}

// What `name` stands for in a query, if it is there.
std::optional<std::string_view> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (pair.starts_with(name) && pair.size() > name.size() && pair[name.size()] == '=') {
      return pair.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

Result<double> read_flush_wait(std::string_view text) {
  double wait_s = 0;
  const auto [read, error] = std::from_chars(text.data(), text.data() + text.size(), wait_s);
  const bool is_number = error == std::errc() && read == text.data() + text.size();
  // Also false for NaN.
  if (is_number && wait_s >= 0 && wait_s <= kMaxFlushWaitS) return wait_s;
  return bad_field("timeout", fmt::format("expected 0 to {:g} seconds", kMaxFlushWaitS));
}

// Blocks, at most for `wait_s`.
HttpResponse flush_when_idle(Engine& engine, double wait_s) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::duration<double>(wait_s);
  while (engine.progress().busy && !engine.draining() &&
         std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(kFlushPoll);
  }
  const bool idle = !engine.progress().busy;
  const EntryCounts freed = flush(engine);
  if (!idle) {
    return error_response(Status{StatusCode::kInvalidArgument,
                                 "requests are running; what they hold was not flushed"});
  }
  return {.body = dump_json({{"success", true},
                             {"message", "Cache flushed."},
                             {"freed_states", freed.states},
                             {"freed_pages", freed.pages}})};
}

Accepted<int> abort_named(RequestRegistry& registry, std::string_view body) {
  const JsonValue object = TRY(parse_json_object(body));
  const JsonValue* all = find_member(object, "abort_all");
  if (all != nullptr && !is_null(*all) && TRY(read_bool(*all, "abort_all"))) {
    return registry.abort("");
  }
  const JsonValue* rid = find_member(object, "rid");
  const std::string name =
      rid == nullptr || is_null(*rid) ? std::string() : TRY(read_string(*rid, "rid"));
  // A name left empty by mistake is not meant to end everything.
  return name.empty() ? 0 : registry.abort(name);
}

}  // namespace

HttpHandler model_info_route(const ServeContext& context) {
  const Json json = {{"model_path", context.model.name},
                     {"tokenizer_path", context.model.name},
                     {"served_model_name", context.served_name},
                     {"is_generation", true},
                     {"has_image_understanding", false},
                     {"has_audio_understanding", false},
                     {"max_model_len", context.model.engine->model().spec().context_length},
                     {"vocab_size", context.model.engine->model().spec().vocab_size},
                     {"weight_version", "default"}};
  return [body = dump_json(json)](HttpRequest, const std::shared_ptr<HttpExchange>& exchange) {
    exchange->respond({.body = body});
  };
}

HttpHandler server_info_route(const ServeContext& context) {
  const std::int64_t chunk_tokens = prefill_chunk_tokens(*context.model.engine);
  return [&context, chunk_tokens](HttpRequest, const std::shared_ptr<HttpExchange>& exchange) {
    const EngineStatus status = context.model.engine->status();
    const Json json = {{"model_path", context.model.name},
                       {"served_model_name", context.served_name},
                       {"status", context.model.engine->draining() ? "draining" : "ready"},
                       {"context_length", context.model.engine->model().spec().context_length},
                       {"chunked_prefill_size", chunk_tokens},
                       {"cache_grid_tokens", status.grid_tokens},
                       {"logprobs_mode", "raw"},
                       {"weight_version", "default"},
                       {"num_running_reqs", status.running},
                       {"num_queue_reqs", status.queued}};
    exchange->respond({.body = dump_json(json)});
  };
}

HttpHandler abort_route(const ServeContext& context) {
  return [&registry = context.registry](HttpRequest request,
                                        const std::shared_ptr<HttpExchange>& exchange) {
    const auto aborted = abort_named(registry, request.body);
    if (!aborted) return exchange->respond(openai_error_format(aborted.error()));
    exchange->respond({.body = dump_json({{"success", true}, {"aborted", *aborted}})});
  };
}

HttpHandler flush_route(const ServeContext& context) {
  return [&context](HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) {
    const auto timeout = query_value(request.query, "timeout");
    const auto wait = timeout ? read_flush_wait(*timeout) : Result<double>(kFlushWaitS);
    if (!wait) return exchange->respond(openai_error_format(wait.error()));
    context.waiting_workers.run(
        WorkerPool::Job([engine = context.model.engine.get(), exchange, wait_s = *wait] {
          post_response(exchange, flush_when_idle(*engine, wait_s));
        }));
  };
}

HttpHandler unsupported_route(std::string why) {
  return [why = std::move(why)](HttpRequest, const std::shared_ptr<HttpExchange>& exchange) {
    exchange->respond(error_response(Status{StatusCode::kInvalidArgument, why}));
  };
}

}  // namespace tandem
