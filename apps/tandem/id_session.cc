#include "id_session.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "event_queue.h"
#include "run_report.h"

namespace tandem {
namespace {

struct Event {
  std::optional<TokenId> token;
  GenerateResult result;  // if there is no token
};

class QueueSink final : public TokenSink {
 public:
  explicit QueueSink(EventQueue<Event>& queue) : queue_(queue) {}
  Verdict on_token(const SampledToken& token) override {
    queue_.push({.token = token.id, .result = {}});
    return Verdict::kContinue;
  }
  void on_finish(const GenerateResult& result) override {
    queue_.push({.token = {}, .result = result});
  }

 private:
  EventQueue<Event>& queue_;
};

}  // namespace

Result<void> run_ids(const ServedModel& model, const RunOptions& options,
                     const SamplingParams& sampling, std::span<const TokenId> ids) {
  EventQueue<Event> events;
  TRY(model.engine->submit({.prompt = {ids.begin(), ids.end()},
                            .sampling = sampling,
                            .max_tokens = options.max_tokens,
                            .stop_ids = model.stop_ids},
                           std::make_unique<QueueSink>(events)));
  std::vector<TokenId> answer;
  for (;;) {
    Event event = events.pop();
    if (!event.token) {
      fmt::print("\n");
      if (event.result.reason == FinishReason::kError) return fail(event.result.status);
      if (options.show_stats) print_stats(event.result.usage);
      if (options.json) {
        nlohmann::ordered_json line;
        line["ids"] = answer;
        line["finish_reason"] = event.result.reason == FinishReason::kLength ? "length" : "stop";
        add_usage(line, event.result.usage);
        fmt::print("{}\n", line.dump());
      }
      return {};
    }
    fmt::print("{}{}", answer.empty() ? "" : " ", *event.token);
    std::fflush(stdout);
    answer.push_back(*event.token);
  }
}

}  // namespace tandem
