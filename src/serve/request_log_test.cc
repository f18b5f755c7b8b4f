#include "serve/request_log.h"

#include <gtest/gtest.h>

#include "base/fake_clock.h"
#include "serve/live_route.h"

namespace tandem {
namespace {

class CountingSink final : public TokenSink {
 public:
  explicit CountingSink(int& calls, Verdict verdict = Verdict::kContinue)
      : calls_(calls), verdict_(verdict) {}
  Verdict on_token(const SampledToken&) override {
    ++calls_;
    return verdict_;
  }
  void on_finish(const GenerateResult&) override { ++calls_; }

 private:
  int& calls_;
  const Verdict verdict_;
};

GenerateResult result(std::int64_t prompt_tokens, std::int64_t cached_tokens, CacheMiss miss) {
  GenerateResult result;
  result.usage.prompt_tokens = prompt_tokens;
  result.usage.cache.cached_tokens = cached_tokens;
  result.usage.cache.miss = miss;
  return result;
}

struct RequestLogTest : testing::Test {
  std::unique_ptr<TokenSink> watch(std::int64_t prompt_tokens) {
    return log.watch(prompt_tokens, std::make_unique<CountingSink>(calls));
  }
  void run(const GenerateResult& ended) {
    const auto sink = watch(ended.usage.prompt_tokens);
    sink->on_token({});
    sink->on_finish(ended);
  }

  FakeClock clock;
  RequestLog log{clock};
  int calls = 0;
};

TEST_F(RequestLogTest, follows_a_request_from_submission_to_end) {
  clock.advance(std::chrono::milliseconds(5));
  const auto sink = watch(9);
  ASSERT_EQ(log.recent().size(), 1U);
  EXPECT_EQ(log.recent()[0].submitted_ms, 5);
  EXPECT_FALSE(log.recent()[0].first_token_ms);
  clock.advance(std::chrono::milliseconds(20));
  sink->on_token({});
  clock.advance(std::chrono::milliseconds(20));
  sink->on_token({});
  EXPECT_EQ(log.recent()[0].first_token_ms, 25);
  EXPECT_EQ(log.recent()[0].answer_tokens, 2);
  EXPECT_FALSE(log.recent()[0].result);
  sink->on_finish(result(9, 4, CacheMiss::kNew));
  ASSERT_EQ(log.recent().size(), 1U);
  EXPECT_EQ(log.recent()[0].result->usage.cache.cached_tokens, 4);
}

TEST_F(RequestLogTest, passes_every_call_and_verdict_on) {
  const auto sink = log.watch(1, std::make_unique<CountingSink>(calls, TokenSink::Verdict::kStop));
  EXPECT_EQ(sink->on_token({}), TokenSink::Verdict::kStop);
  sink->on_finish({});
  EXPECT_EQ(calls, 2);
}

TEST_F(RequestLogTest, forgets_a_request_that_the_engine_refused) {
  watch(3).reset();
  EXPECT_TRUE(log.recent().empty());
  EXPECT_EQ(log.totals().prompts, 0);
}

TEST_F(RequestLogTest, keeps_the_last_that_ended_and_all_that_run) {
  const auto running = watch(1);
  for (std::size_t i = 0; i < RequestLog::kKept + 3; ++i) run(result(1, 0, CacheMiss::kNew));
  const std::vector<RequestRecord> records = log.recent();
  ASSERT_EQ(records.size(), RequestLog::kKept + 1);
  EXPECT_EQ(records.front().number, 1U);
  EXPECT_EQ(records[1].number, 5U);
  EXPECT_EQ(records.back().number, RequestLog::kKept + 4);
}

TEST_F(RequestLogTest, adds_up_how_prompts_met_the_cache) {
  run(result(10, 6, CacheMiss::kDiffers));
  run(result(20, 5, CacheMiss::kDiffers));
  run(result(30, 29, CacheMiss::kNone));
  const PromptTotals totals = log.totals();
  EXPECT_EQ(totals.prompts, 3);
  EXPECT_EQ(totals.prompt_tokens, 60);
  EXPECT_EQ(totals.cached_tokens, 40);
  EXPECT_EQ(totals.misses[static_cast<std::size_t>(CacheMiss::kDiffers)], 2);
  EXPECT_EQ(totals.missed_tokens[static_cast<std::size_t>(CacheMiss::kDiffers)], 19);
}

TEST_F(RequestLogTest, leaves_prompts_that_were_never_computed_out_of_the_totals) {
  watch(7)->on_finish(result(7, 0, CacheMiss::kNew));
  EXPECT_EQ(log.totals().prompts, 0);
  EXPECT_EQ(log.recent().size(), 1U);
}

}  // namespace
}  // namespace tandem
