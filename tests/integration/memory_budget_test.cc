// Memory beyond weights, states and latent rows stays small: activations, tokenizer, tables.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <future>

#include "engine/served_model.h"
#include "support/model_runner.h"

namespace tandem {
namespace {

constexpr double kBudgetMib = 40;

// "RssAnon" of this process: resident memory that no file backs.
double anonymous_mib() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("RssAnon:")) return std::stod(line.substr(8)) / 1024;
  }
  ADD_FAILURE() << "/proc/self/status has no RssAnon";
  return INFINITY;
}

class LastToken final : public TokenSink {
 public:
  explicit LastToken(std::promise<void>& done) : done_(done) {}
  Verdict on_token(const SampledToken&) override { return Verdict::kContinue; }
  void on_finish(const GenerateResult&) override { done_.set_value(); }

 private:
  std::promise<void>& done_;
};

TEST(MemoryBudgetTest, the_demo_model_serves_a_long_prompt_within_forty_mebibytes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow memory is not the program's";
#endif
  const SystemClock clock;
  auto served = load_served_model({.folder = source_path("models/demo")}, clock);
  ASSERT_TRUE(served) << served.error().message;
  Engine& engine = *(*served)->engine;

  const std::int64_t prompt_tokens = 4000;
  GenerateRequest request;
  for (std::int64_t i = 0; i < prompt_tokens; ++i)
    request.prompt.push_back(static_cast<TokenId>(i * 31 % 4000));
  request.max_tokens = 64;
  std::promise<void> done;
  ASSERT_TRUE(engine.submit(std::move(request), std::make_unique<LastToken>(done)));
  done.get_future().wait();

  const StateLayout& layout = engine.model().memory().total;
  const double request_mib =
      static_cast<double>(layout.state_bytes + layout.row_bytes * (prompt_tokens + 64 + 64)) /
      0x1p20;
  const double weights_mib = static_cast<double>(engine.model().weights().tiles.size()) / 0x1p20;
  EXPECT_LE(anonymous_mib() - weights_mib - request_mib, kBudgetMib);
  fmt::print(
      "anonymous memory {:.1f} MiB, of which weights are {:.1f} and the request's state and rows "
      "at "
      "most {:.1f} MiB\n",
      anonymous_mib(), weights_mib, request_mib);
}

}  // namespace
}  // namespace tandem
