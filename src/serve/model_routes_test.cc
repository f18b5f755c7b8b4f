#include "serve/model_routes.h"

#include <gtest/gtest.h>

#include "serve/fake_exchange.h"

namespace tandem {
namespace {

class LateClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now() + late; }
  std::chrono::seconds late{0};
};

class IgnoringSink final : public TokenSink {
 public:
  Verdict on_token(const SampledToken&) override { return Verdict::kContinue; }
  void on_finish(const GenerateResult&) override {}
};

TEST(HealthRoute, work_without_a_step_for_long_is_not_healthy) {
  const SystemClock clock;
  const auto model =
      load_served_model({.folder = std::filesystem::path(TANDEM_SOURCE_DIR) / "models/demo",
                         .loading = {},
                         .engine = {.threads = 1}},
                        clock)
          .value();
  LateClock asked;
  const HttpHandler health = health_route(*model, asked);
  const auto status = [&] {
    const auto exchange = std::make_shared<FakeExchange>();
    health({}, exchange);
    return exchange->response->status;
  };
  asked.late = std::chrono::seconds(30);
  EXPECT_EQ(status(), 200);  // there is no work
  const auto id = model->engine->submit({.prompt = {1, 2, 3}, .sampling = {}, .stop_ids = {}},
                                        std::make_unique<IgnoringSink>());
  EXPECT_EQ(status(), 503);
  asked.late = std::chrono::seconds(0);
  EXPECT_EQ(status(), 200);
  model->engine->cancel(id.value());
  model->engine->start_draining();
  EXPECT_EQ(status(), 503);
}

}  // namespace
}  // namespace tandem
