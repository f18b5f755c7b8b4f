#include "serve/chat_route.h"

#include <ctime>
#include <new>
#include <random>
#include <utility>

#include "serve/chat_answer.h"
#include "serve/openai_error.h"
#include "serve/openai_request.h"

namespace tandem {
namespace {

std::uint64_t random_bits() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

std::string completion_id() {
  return fmt::format("chatcmpl-{:016x}{:08x}", random_bits(), random_bits() >> 32);
}

// An error for the client, with the word that programs look for.
struct Refusal {
  Status status;
  std::string code = {};
};

// One request, on a worker thread.
class ChatSubmission {
 public:
  ChatSubmission(const ServedModel& model, const std::string& served_name, RequestTotals& totals,
                 RequestLog& log, std::shared_ptr<HttpExchange> exchange)
      : model_(model),
        served_name_(served_name),
        totals_(totals),
        log_(log),
        exchange_(std::move(exchange)) {}

  void run(HttpRequest http) {
    auto prepared = prepare(http.body);
    http = {};  // a large body is not kept while its answer is written
    if (!prepared) {
      return respond(error_response(prepared.error().status, prepared.error().code));
    }
    submit();
  }

 private:
  // Fills request_ and prompt_.
  tl::expected<void, Refusal> prepare(std::string_view body) {
    if (model_.engine->draining()) {
      return refuse({StatusCode::kUnavailable, "the server is shutting down"});
    }
    if (!model_.chat_format) {
      return refuse(
          {StatusCode::kInvalidArgument, "the model has no tokenizer, so it cannot chat"});
    }
    auto request = parse_chat_completion(body, model_.default_sampling());
    if (!request) return refuse(request.error());
    request_ = *std::move(request);
    if (!request_.model.empty() && request_.model != served_name_) {
      return refuse({StatusCode::kNotFound,
                     fmt::format("no model '{}'; this server has '{}'",
                                 request_.model.substr(0, 100), served_name_),
                     "model"},
                    "model_not_found");
    }
    if (request_.chat.tool_choice == ToolChoice::kRequired &&
        model_.chat_family != ChatFamily::kK3) {
      return refuse({StatusCode::kInvalidArgument,
                     "\"required\" is not supported: this model's chat format cannot say it",
                     "tool_choice"});
    }
    auto prompt = model_.chat_format->render(request_.chat);
    if (!prompt) return refuse(prompt.error());
    prompt_ = *std::move(prompt);
    return check_length();
  }

  tl::expected<void, Refusal> check_length() const {
    const std::int64_t context = model_.engine->model().spec().context_length;
    const auto tokens = static_cast<std::int64_t>(prompt_.ids.size());
    if (tokens < context) return {};
    return refuse({StatusCode::kInvalidArgument,
                   fmt::format("the prompt has {} tokens; the context holds {}, with at least one "
                               "for the answer",
                               tokens, context),
                   "messages"},
                  "context_length_exceeded");
  }

  static tl::unexpected<Refusal> refuse(Status status, std::string code = {}) {
    return tl::unexpected(Refusal{std::move(status), std::move(code)});
  }

  void submit() {
    // Shared by the sinks of all choices, which the engine owns.
    const auto answer = std::make_shared<ChatAnswer>(
        exchange_,
        ChatAnswerOptions{
            .head = {completion_id(), static_cast<std::int64_t>(std::time(nullptr)), served_name_},
            .choices = request_.choices,
            .prompt_tokens = static_cast<std::int64_t>(prompt_.ids.size()),
            .stream = request_.stream,
            .include_usage = request_.include_usage,
            .logprobs = request_.sampling.top_logprobs >= 0 ? model_.tokenizer.get() : nullptr});
    const std::uint64_t seed = request_.seed ? *request_.seed : random_bits();
    std::vector<RequestId> ids;
    for (int choice = 0; choice < request_.choices; ++choice) {
      // Choice i of a seed is choice 0 of the seed i further.
      const auto id = submit_choice(answer, choice, seed + static_cast<std::uint64_t>(choice));
      if (!id) {
        for (const RequestId submitted : ids) model_.engine->cancel(submitted);
        exchange_->post(
            [answer, response = error_response(id.error())] { answer->refuse(response); });
        return;
      }
      ids.push_back(*id);
    }
    Engine* engine = model_.engine.get();
    auto cancel = [engine, ids = std::move(ids)] {
      for (const RequestId id : ids) engine->cancel(id);
    };
    exchange_->post([exchange = exchange_, answer, cancel] {
      exchange->on_gone(cancel);
      answer->begin(cancel);
    });
  }

  Result<RequestId> submit_choice(const std::shared_ptr<ChatAnswer>& answer, int choice,
                                  std::uint64_t seed) const {
    SamplingParams sampling = request_.sampling;
    sampling.seed = seed;
    auto sink = std::make_unique<AnswerSink>(
        model_.answer_stream(prompt_, request_.chat, request_.stop),
        [exchange = exchange_, answer, choice](std::vector<OutputEvent> events,
                                               const SampledToken* token) {
          auto sampled = token != nullptr ? std::optional(*token) : std::nullopt;
          exchange->post([answer, choice, events = std::move(events), sampled] {
            answer->on_events(choice, events, sampled);
          });
        },
        [exchange = exchange_, answer, choice, &totals = totals_](const AnswerResult& result) {
          totals.add(result.result);
          exchange->post([answer, choice, result] { answer->on_end(choice, result); });
        });
    return model_.engine->submit(
        {.prompt = prompt_.ids,
         .sampling = sampling,
         .max_tokens = request_.max_tokens,
         .stop_ids = model_.stop_ids,
         .cache = {.salt = request_.cache_salt},
         .priority = request_.priority},
        log_.watch(static_cast<std::int64_t>(prompt_.ids.size()), std::move(sink)));
  }

  void respond(HttpResponse response) {
    exchange_->post(
        [exchange = exchange_, response = std::move(response)] { exchange->respond(response); });
  }

  const ServedModel& model_;
  const std::string& served_name_;
  RequestTotals& totals_;
  RequestLog& log_;
  const std::shared_ptr<HttpExchange> exchange_;
  ChatCompletionRequest request_;
  Prompt prompt_;
};

}  // namespace

ChatRoute::ChatRoute(const ServedModel& model, std::string served_name, WorkerPool& workers,
                     RequestTotals& totals, RequestLog& log)
    : model_(model),
      served_name_(std::move(served_name)),
      workers_(workers),
      totals_(totals),
      log_(log) {}

void ChatRoute::operator()(HttpRequest request, std::shared_ptr<HttpExchange> exchange) const {
  workers_.run(WorkerPool::Job(
      [this, request = std::move(request), exchange = std::move(exchange)]() mutable {
        try {
          ChatSubmission(model_, served_name_, totals_, log_, exchange).run(std::move(request));
        } catch (const std::bad_alloc&) {
          exchange->post([exchange] {
            exchange->respond(error_response(
                Status{StatusCode::kUnavailable, "no memory for this request; try again later"}));
          });
        }
      }));
}

}  // namespace tandem
