#include "loadgen/load_run.h"

#include <algorithm>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <list>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "loadgen/answer_reader.h"
#include "loadgen/arrivals.h"
#include "loadgen/http_client.h"

namespace tandem::loadgen {
namespace {

using boost::system::error_code;
using Json = nlohmann::json;

constexpr std::chrono::milliseconds kTick{5};
constexpr double kProgressInterval_s = 0.5;

std::chrono::milliseconds to_ms(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

// A conversation under way: what was said so far, in both forms.
struct Session {
  std::vector<Turn> turns;
  std::size_t next = 0;
  std::string messages = {};
  std::string text = {};
};

void append(std::string& text, std::string_view separator, std::string_view more) {
  if (!text.empty()) text += separator;
  text += more;
}

void add_answer(Session& session, const AnswerReader& answer) {
  Json message = {{"role", "assistant"}, {"content", answer.content()}};
  if (!answer.reasoning().empty()) message["reasoning_content"] = answer.reasoning();
  append(session.messages, ",", message.dump());
  append(session.text, "\n", answer.content());
}

// Everything of one run; all on the thread that calls run().
class LoadRun {
 public:
  LoadRun(const LoadRunOptions& options, const Workload& workload,
          const std::function<void(const LoadProgress&)>& progress)
      : options_(options),
        workload_(workload),
        progress_(progress),
        model_json_(Json(options.model).dump()),
        signals_(io_),
        arrival_timer_(io_),
        tick_timer_(io_) {}

  Result<LoadRunResult> run() {
    client_ = TRY(HttpClient::create(io_, options_.target, options_.api_key));
    signals_.add(SIGINT);
    signals_.add(SIGTERM);
    signals_.async_wait([this](const error_code& error, int) {
      if (!error) interrupt();
    });
    start_ = clock_.now();
    if (options_.rate_per_s) {
      arrivals_.emplace(*options_.rate_per_s, options_.seed);
      due_s_ = arrivals_->next_s();
      await_arrival();
    } else {
      for (std::int64_t i = 0; i < options_.concurrency; ++i) begin_conversation(0);
    }
    await_tick();
    io_.run();
    result_.wall_s = now_s();
    return std::move(result_);
  }

 private:
  double now_s() const { return milliseconds(start_, clock_.now()) / 1000; }
  TimePoint at(double seconds) const {
    return start_ +
           std::chrono::duration_cast<TimePoint::duration>(std::chrono::duration<double>(seconds));
  }

  bool over(double at_s) const {
    return result_.interrupted || (options_.duration_s > 0 && at_s >= options_.duration_s);
  }
  bool may_begin(double due_s) const {
    return !over(due_s) && (options_.conversations == 0 || begun_ < options_.conversations);
  }

  // --- open loop: whatever is due is sent, however many answers are outstanding ---

  void await_arrival() {
    if (!may_begin(due_s_)) return finish_if_done();
    arrival_timer_.expires_at(at(due_s_));
    arrival_timer_.async_wait([this](const error_code& error) {
      if (error) return;
      while (due_s_ <= now_s() && may_begin(due_s_)) {
        begin_conversation(due_s_);
        due_s_ = arrivals_->next_s();
      }
      await_arrival();
    });
  }

  // --- conversations ---

  void begin_conversation(double due_s) {
    if (!may_begin(due_s)) return finish_if_done();
    auto session = std::make_shared<Session>(Session{.turns = workload_.conversation(begun_++)});
    ask(std::move(session), due_s);
  }

  void ask(std::shared_ptr<Session> session, double due_s) {
    const Turn& turn = session->turns[session->next++];
    append(session->messages, ",", turn.messages);
    append(session->text, "\n", turn.text);
    const bool chat = options_.endpoint == Endpoint::kChat;
    const std::string body = request_body(*session, turn.max_tokens);
    auto reader = std::make_shared<AnswerReader>();
    reader->record().due_s = due_s;
    reader->record().sent_s = now_s();
    const auto slot = open_.emplace(open_.end());
    CallEvents events{
        .on_head = [reader](int status, std::string_view type) { reader->on_head(status, type); },
        .on_body =
            [this, reader, slot, session](std::string_view bytes) {
              const std::int64_t before = reader->pieces();
              const bool useful = reader->on_body(bytes, now_s());
              pieces_ += reader->pieces() - before;
              if (useful) return;
              (*slot)->cancel();
              end_request(slot, reader, session);
            },
        .on_end =
            [this, reader, slot, session](CallEnd end, const std::string& detail) {
              reader->on_end(end, detail);
              end_request(slot, reader, session);
            }};
    *slot = client_->call(chat ? "/v1/chat/completions" : "/v1/completions", body,
                          std::move(events), to_ms(options_.timeout_s));
  }

  std::string request_body(const Session& session, std::int64_t max_tokens) const {
    std::string body = fmt::format(
        R"({{"model":{},"stream":true,"stream_options":{{"include_usage":true}})", model_json_);
    if (max_tokens > 0) body += fmt::format(",\"max_tokens\":{}", max_tokens);
    if (!options_.extra_fields.empty()) body += "," + options_.extra_fields;
    if (options_.endpoint == Endpoint::kChat) {
      return body + ",\"messages\":[" + session.messages + "]}";
    }
    return body + ",\"prompt\":" + Json(session.text).dump() + "}";
  }

  using Slot = std::list<std::shared_ptr<HttpCall>>::iterator;

  void end_request(Slot slot, const std::shared_ptr<AnswerReader>& reader,
                   const std::shared_ptr<Session>& session) {
    open_.erase(slot);
    RequestRecord& record = reader->record();
    record.end_s = now_s();
    const bool answered = record.error.empty();
    errors_ += answered ? 0 : 1;
    if (!answered) record.gaps_ms.clear();
    result_.requests.push_back(std::move(record));
    // A conversation that lost an answer has no sensible next turn.
    if (answered && session->next < session->turns.size() && !over(now_s())) {
      add_answer(*session, *reader);
      return ask(session, now_s());
    }
    if (!arrivals_) return begin_conversation(now_s());
    finish_if_done();
  }

  // --- the end, the progress and the program's own lag ---

  void finish_if_done() {
    const bool more = arrivals_ && may_begin(due_s_);
    if (!open_.empty() || more) return;
    finished_ = true;
    signals_.cancel();
    tick_timer_.cancel();
  }

  void interrupt() {
    result_.interrupted = true;
    for (const auto& call : open_) call->cancel();
    open_.clear();
    arrival_timer_.cancel();
    finish_if_done();
  }

  void await_tick() {
    tick_timer_.expires_after(kTick);
    tick_timer_.async_wait([this, due = clock_.now() + kTick](const error_code& error) {
      // A tick that was due already when it was cancelled comes without an error.
      if (error || finished_) return;
      result_.clock_lag_ms.push_back(std::max(0.0, milliseconds(due, clock_.now())));
      if (now_s() - told_s_ >= kProgressInterval_s) {
        told_s_ = now_s();
        progress_({.elapsed_s = told_s_,
                   .open = static_cast<std::int64_t>(open_.size()),
                   .answered = static_cast<std::int64_t>(result_.requests.size()) - errors_,
                   .errors = errors_,
                   .pieces = pieces_});
      }
      await_tick();
    });
  }

  const LoadRunOptions& options_;
  const Workload& workload_;
  const std::function<void(const LoadProgress&)>& progress_;
  const std::string model_json_;
  const SystemClock clock_;
  TimePoint start_;

  boost::asio::io_context io_{1};  // outlives every socket and timer
  LoadRunResult result_;
  std::int64_t begun_ = 0;
  std::int64_t errors_ = 0;
  std::int64_t pieces_ = 0;
  bool finished_ = false;
  double told_s_ = 0;
  std::optional<PoissonArrivals> arrivals_;
  double due_s_ = 0;  // the next arrival

  std::unique_ptr<HttpClient> client_;
  std::list<std::shared_ptr<HttpCall>> open_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer arrival_timer_;
  boost::asio::steady_timer tick_timer_;
};

}  // namespace

Result<LoadRunResult> run_load(const LoadRunOptions& options, const Workload& workload,
                               const std::function<void(const LoadProgress&)>& progress) {
  return LoadRun(options, workload, progress).run();
}

Result<std::string> first_model(const Target& target, const std::string& api_key,
                                double timeout_s) {
  boost::asio::io_context io{1};
  const auto client = TRY(HttpClient::create(io, target, api_key));
  int status = 0;
  std::string body;
  Result<std::string> model;
  const auto fail_with = [&](std::string_view what) {
    model = fail(StatusCode::kUnavailable, "{}/v1/models: {}", target.url(), what);
  };
  const auto call =
      client->call("/v1/models", "",
                   {.on_head = [&](int code, std::string_view) { status = code; },
                    .on_body = [&](std::string_view bytes) { body += bytes; },
                    .on_end =
                        [&](CallEnd end, const std::string& detail) {
                          if (end != CallEnd::kComplete)
                            return fail_with(detail.empty() ? "timeout" : detail);
                          if (status != 200) return fail_with(fmt::format("HTTP {}", status));
                          const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
                          const auto id = Json::json_pointer("/data/0/id");
                          if (!json.is_object() || !json.contains(id) || !json.at(id).is_string()) {
                            return fail_with("lists no model; name one with --model");
                          }
                          model = json.at(id).get<std::string>();
                        }},
                   to_ms(timeout_s));
  io.run();
  return model;
}

}  // namespace tandem::loadgen
