#include "serve/health_check.h"

#include <utility>

#include "serve/build_generation.h"
#include "serve/openai_error.h"

namespace tandem {
namespace {

class HealthWriter final : public AnswerWriter {
 public:
  explicit HealthWriter(std::shared_ptr<HttpExchange> exchange) : exchange_(std::move(exchange)) {}

  void begin() override {}
  void on_events(int, const std::vector<OutputEvent>&, std::span<const SampledToken>) override {}
  void on_end(int, const AnswerResult&) override {}
  void complete() override { exchange_->respond({.body = R"({"status":"ok"})"}); }
  void fail(const Status& status) override { exchange_->respond(error_response(status)); }

 private:
  const std::shared_ptr<HttpExchange> exchange_;
};

}  // namespace

Accepted<PreparedAnswer> prepare_health_check(const ServeContext& context, const HttpRequest&) {
  const GenerationFields fields{.max_tokens = 1};
  auto generation = generation_of(context, fields);
  if (!generation) return tl::unexpected(generation.error());
  const auto added = add_plain_prompt(context, fields, {0}, "prompt", *generation);
  if (!added) return tl::unexpected(added.error());
  return PreparedAnswer{.generation = *std::move(generation),
                        .make_writer = [](std::shared_ptr<HttpExchange> exchange) {
                          return std::make_unique<HealthWriter>(std::move(exchange));
                        }};
}

}  // namespace tandem
