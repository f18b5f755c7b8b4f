#include "engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <future>
#include <mutex>
#include <numeric>

namespace tandem {
namespace {

const std::filesystem::path kModel =
    std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/golden/k3_tiny";

struct Outcome {
  std::vector<TokenId> ids;
  PromptLogprobs prompt = {};
  GenerateResult result = {};
};

// Collects a request's tokens; `hook`, if set, sees each one on the loop thread.
class CollectingSink : public TokenSink {
 public:
  using Hook = std::function<Verdict(const std::vector<TokenId>&)>;
  explicit CollectingSink(Hook hook = {}) : hook_(std::move(hook)) {}

  std::future<Outcome> outcome() { return promise_.get_future(); }

  Verdict on_token(const SampledToken& token) override {
    if (token.prompt) outcome_.prompt = *token.prompt;
    outcome_.ids.push_back(token.id);
    return hook_ ? hook_(outcome_.ids) : Verdict::kContinue;
  }
  void on_finish(const GenerateResult& result) override {
    outcome_.result = result;
    promise_.set_value(outcome_);
  }

 private:
  Hook hook_;
  Outcome outcome_;
  std::promise<Outcome> promise_;
};

class EngineTest : public testing::Test {
 protected:
  std::unique_ptr<Engine> start(EngineOptions options = {.threads = 1}) {
    auto model = Model::load(kModel, Precision::kExact, cpu_kernels());
    EXPECT_TRUE(model) << model.error().message;
    auto engine = Engine::create(*std::move(model), options, clock_);
    EXPECT_TRUE(engine) << engine.error().message;
    return *std::move(engine);
  }
  SystemClock clock_;
};

std::vector<TokenId> prompt_of(std::int64_t tokens, TokenId first = 3) {
  std::vector<TokenId> ids(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>((first + 7 * i) % 500);
  return ids;
}

GenerateRequest greedy(std::vector<TokenId> prompt, std::int64_t max_tokens) {
  return {.prompt = std::move(prompt),
          .sampling = {.temperature = 0},
          .max_tokens = max_tokens,
          .stop_ids = {}};
}

std::future<Outcome> submit(Engine& engine, GenerateRequest request, CollectingSink::Hook hook = {},
                            RequestId* id = nullptr) {
  auto sink = std::make_unique<CollectingSink>(std::move(hook));
  auto outcome = sink->outcome();
  auto submitted = engine.submit(std::move(request), std::move(sink));
  EXPECT_TRUE(submitted) << submitted.error().message;
  if (id != nullptr) *id = *submitted;
  return outcome;
}

TEST_F(EngineTest, answers_do_not_depend_on_neighbours_or_chunks) {
  std::vector<std::vector<TokenId>> alone;
  {
    auto engine = start();
    for (int i = 0; i < 6; ++i) {
      alone.push_back(submit(*engine, greedy(prompt_of(5 + 17 * i, i), 12)).get().ids);
    }
  }
  auto engine = start({.threads = 2, .prefill_chunk = 13, .max_running = 4, .page_tokens = 16});
  std::vector<std::future<Outcome>> together;
  for (int i = 0; i < 6; ++i)
    together.push_back(submit(*engine, greedy(prompt_of(5 + 17 * i, i), 12)));
  for (std::size_t i = 0; i < together.size(); ++i) EXPECT_EQ(together[i].get().ids, alone[i]) << i;
}

TEST_F(EngineTest, ends_for_the_reason_that_applies) {
  auto engine = start();
  const Outcome length = submit(*engine, greedy(prompt_of(9), 4)).get();
  EXPECT_EQ(length.result.reason, FinishReason::kLength);
  EXPECT_EQ(length.ids.size(), 4u);
  EXPECT_EQ(length.result.usage.prompt_tokens, 9);
  EXPECT_EQ(length.result.usage.completion_tokens, 4);

  GenerateRequest stopping = greedy(prompt_of(9), 4);
  stopping.stop_ids = {length.ids[1]};
  const Outcome stop_id = submit(*engine, std::move(stopping)).get();
  EXPECT_EQ(stop_id.result.reason, FinishReason::kStop);
  EXPECT_EQ(stop_id.ids.back(), length.ids[1]);

  const Outcome sink_stop =
      submit(*engine, greedy(prompt_of(9), 40), [](const auto& ids) {
        return ids.size() == 3 ? TokenSink::Verdict::kStop : TokenSink::Verdict::kContinue;
      }).get();
  EXPECT_EQ(sink_stop.result.reason, FinishReason::kStop);
  EXPECT_EQ(sink_stop.ids.size(), 3u);
}

TEST_F(EngineTest, an_answer_ends_where_the_context_does) {
  auto engine = start();
  const std::int64_t context = engine->model().spec().context_length;
  const Outcome outcome = submit(*engine, greedy(prompt_of(context - 3), -1)).get();
  EXPECT_EQ(outcome.result.reason, FinishReason::kLength);
  EXPECT_EQ(outcome.ids.size(), 3u);
}

TEST_F(EngineTest, bad_requests_are_refused_and_say_why) {
  auto engine = start();
  const auto refused = [&](GenerateRequest request) {
    return engine->submit(std::move(request), std::make_unique<CollectingSink>()).error().message;
  };
  EXPECT_EQ(refused(greedy({}, 1)), "the prompt has no tokens");
  EXPECT_EQ(refused(greedy({512}, 1)), "prompt token id 512 is outside the vocabulary of 512");
  EXPECT_EQ(refused(greedy({-1}, 1)), "prompt token id -1 is outside the vocabulary of 512");
  EXPECT_EQ(refused(greedy(prompt_of(4096), 1)),
            "the prompt has 4096 tokens; the context holds 4096, with at least one for the answer");
  EXPECT_EQ(refused(greedy(prompt_of(3), 0)), "max_tokens: expected at least 1, got 0");
  GenerateRequest hot = greedy(prompt_of(3), 1);
  hot.sampling.temperature = -1;
  EXPECT_EQ(refused(std::move(hot)), "temperature: expected 0 to 100, got -1");
}

TEST_F(EngineTest, cancel_ends_a_running_and_a_queued_request_and_no_other) {
  auto engine = start({.threads = 1, .max_running = 1});
  std::promise<void> first_token;
  std::once_flag once;
  RequestId running_id, queued_id;
  auto running = submit(
      *engine, greedy(prompt_of(5), 4000),
      [&](const auto&) {
        std::call_once(once, [&] { first_token.set_value(); });
        return TokenSink::Verdict::kContinue;
      },
      &running_id);
  first_token.get_future().wait();
  auto queued = submit(*engine, greedy(prompt_of(6), 2), {}, &queued_id);
  auto survivor = submit(*engine, greedy(prompt_of(7), 2));
  engine->cancel(queued_id);
  EXPECT_EQ(queued.get().result.reason, FinishReason::kCancelled);
  engine->cancel(running_id);
  EXPECT_EQ(running.get().result.reason, FinishReason::kCancelled);
  EXPECT_EQ(survivor.get().ids.size(), 2u);
  engine->cancel(running_id);  // ended already: nothing happens
  engine->wait_idle();
}

TEST_F(EngineTest, a_full_queue_and_a_draining_engine_refuse) {
  auto engine = start({.threads = 1, .max_running = 1, .max_queued = 1});
  std::promise<void> started;
  std::once_flag once;
  auto running = submit(*engine, greedy(prompt_of(5), 300), [&](const auto&) {
    std::call_once(once, [&] { started.set_value(); });
    return TokenSink::Verdict::kContinue;
  });
  started.get_future().wait();
  auto queued = submit(*engine, greedy(prompt_of(6), 2));
  const auto full = engine->submit(greedy(prompt_of(4), 1), std::make_unique<CollectingSink>());
  EXPECT_EQ(full.error().code, StatusCode::kResourceExhausted);
  engine->start_draining();
  const auto late = engine->submit(greedy(prompt_of(4), 1), std::make_unique<CollectingSink>());
  EXPECT_EQ(late.error().code, StatusCode::kUnavailable);
  engine->wait_idle();
  EXPECT_EQ(running.get().ids.size(), 300u);  // what was accepted is finished
  EXPECT_EQ(queued.get().ids.size(), 2u);
}

TEST_F(EngineTest, a_free_place_in_a_step_is_not_refused_for_want_of_a_place_in_the_queue) {
  auto engine = start({.threads = 1, .max_running = 3, .max_queued = 0});
  // Faster than the loop thread can admit them.
  std::vector<std::future<Outcome>> outcomes;
  for (int i = 0; i < 3; ++i) outcomes.push_back(submit(*engine, greedy(prompt_of(5), 400)));
  EXPECT_FALSE(engine->submit(greedy(prompt_of(5), 1), std::make_unique<CollectingSink>()));
  for (auto& outcome : outcomes) EXPECT_EQ(outcome.get().ids.size(), 400u);
}

TEST_F(EngineTest, the_planner_works_by_the_options_asked_for) {
  auto engine = start({.threads = 1,
                       .prefill_chunk = 100,
                       .max_running = 3,
                       .prefix_cache = false,
                       .track_interval = 30,
                       .step_budget_ms = 7,
                       .estimate_deviations = 2.5,
                       .policy = QueuePolicy::kFirstCome,
                       .low_priority_first = true,
                       .preempt_above = 4});
  PlannerOptions got;
  engine->inspect([&](EngineInternals inside) { got = inside.planner.options(); });
  EXPECT_EQ(got.max_running, 3);
  EXPECT_EQ(got.prefill_chunk, 112);  // on the grid
  EXPECT_EQ(got.track_interval, 32);
  EXPECT_EQ(got.step_budget_ms, 7);
  EXPECT_EQ(got.estimate_deviations, 2.5);
  EXPECT_EQ(got.policy, QueuePolicy::kFirstCome);
  EXPECT_TRUE(got.low_priority_first);
  EXPECT_EQ(got.preempt_above, 4);
  EXPECT_FALSE(got.use_cache);
}

TEST_F(EngineTest, options_out_of_range_are_refused) {
  auto model = Model::load(kModel, Precision::kExact, cpu_kernels());
  ASSERT_TRUE(model);
  const std::shared_ptr<const Model> shared = *std::move(model);
  for (const EngineOptions& options :
       {EngineOptions{.max_running = 0}, EngineOptions{.max_queued = -1},
        EngineOptions{.step_budget_ms = 0}, EngineOptions{.estimate_deviations = -1},
        EngineOptions{.preempt_above = -1}}) {
    const auto engine = Engine::create(shared, options, clock_);
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().code, StatusCode::kInvalidArgument) << engine.error().message;
  }
}

TEST_F(EngineTest, destruction_cancels_what_is_left) {
  std::future<Outcome> running, queued;
  {
    auto engine = start({.threads = 1, .max_running = 1});
    running = submit(*engine, greedy(prompt_of(5), 4000));
    queued = submit(*engine, greedy(prompt_of(5), 4000));
  }
  EXPECT_EQ(running.get().result.reason, FinishReason::kCancelled);
  EXPECT_EQ(queued.get().result.reason, FinishReason::kCancelled);
}

TEST_F(EngineTest, progress_tells_an_idle_engine_from_one_that_is_stuck) {
  auto engine = start();
  EXPECT_FALSE(engine->progress().busy);
  const TimePoint before = clock_.now();
  std::promise<void> reached;
  std::promise<void> release;
  auto outcome = submit(*engine, greedy(prompt_of(5), 4), [&](const std::vector<TokenId>& ids) {
    if (ids.size() == 2) {
      reached.set_value();
      release.get_future().wait();
    }
    return TokenSink::Verdict::kContinue;
  });
  reached.get_future().wait();
  const EngineProgress stuck = engine->progress();
  EXPECT_TRUE(stuck.busy);
  EXPECT_GE(stuck.since, before);
  EXPECT_LE(stuck.since, clock_.now());
  EXPECT_EQ(engine->progress().since, stuck.since);
  release.set_value();
  EXPECT_EQ(outcome.get().ids.size(), 4u);
  engine->wait_idle();
  EXPECT_FALSE(engine->progress().busy);
}

// Lets one token pass, and remembers being asked.
class OnlyToken final : public TokenConstraint {
 public:
  OnlyToken(TokenId token, std::size_t vocabulary) : bits_((vocabulary + 63) / 64) {
    bits_[static_cast<std::size_t>(token) / 64] = std::uint64_t{1} << (token % 64);
  }
  Result<std::span<const std::uint64_t>> allowed() override { return std::span(bits_); }
  void accept(TokenId) override {}

 private:
  std::vector<std::uint64_t> bits_;
};

TEST_F(EngineTest, a_constraint_binds_its_own_request_only) {
  auto engine = start();
  const auto vocabulary = static_cast<std::size_t>(engine->model().spec().vocab_size);
  const auto free = submit(*engine, greedy(prompt_of(5), 6)).get().ids;
  auto neighbour = submit(*engine, greedy(prompt_of(5), 6));
  GenerateRequest bound = greedy(prompt_of(9), 6);
  bound.constraint = std::make_unique<OnlyToken>(17, vocabulary);
  EXPECT_EQ(submit(*engine, std::move(bound)).get().ids, std::vector<TokenId>(6, 17));
  EXPECT_EQ(neighbour.get().ids, free);
}

TEST_F(EngineTest, a_weight_that_is_no_share_is_refused) {
  auto engine = start();
  for (const double weight : {0.0, -1.0, std::nan("")}) {
    GenerateRequest request = greedy(prompt_of(5), 1);
    request.tenant_weight = weight;
    EXPECT_FALSE(engine->submit(std::move(request), std::make_unique<CollectingSink>()));
  }
}

TEST_F(EngineTest, log_probs_of_a_prompt_do_not_depend_on_cache_chunks_or_neighbours) {
  const auto prompt = prompt_of(150);
  const auto scored = [&](Engine& engine, std::int64_t from) {
    GenerateRequest request = greedy(prompt, 3);
    request.sampling.top_logprobs = 2;
    request.prompt_logprobs_from = from;
    return submit(engine, std::move(request)).get();
  };
  auto engine = start({.threads = 1, .prefill_chunk = 1024});
  const auto plain = submit(*engine, greedy(prompt, 3)).get();
  const Outcome all = scored(*engine, 1);
  EXPECT_EQ(all.ids, plain.ids);
  EXPECT_EQ(all.result.usage.cache.cached_tokens, 0);  // though it was cached
  ASSERT_EQ(all.prompt.size(), prompt.size() - 1);

  // Against what sampling says of the same tokens: the prompt cut at each of some places.
  for (const std::size_t cut : {1, 64, 65, 149}) {
    GenerateRequest request =
        greedy({prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(cut)}, 1);
    request.sampling.logit_bias = {{prompt[cut], 100.0f}};
    request.sampling.top_logprobs = 2;
    std::promise<SampledToken> token;
    class Sink final : public TokenSink {
     public:
      explicit Sink(std::promise<SampledToken>& promise) : promise_(promise) {}
      Verdict on_token(const SampledToken& sampled) override {
        promise_.set_value(sampled);
        return Verdict::kStop;
      }
      void on_finish(const GenerateResult&) override {}

     private:
      std::promise<SampledToken>& promise_;
    };
    ASSERT_TRUE(engine->submit(std::move(request), std::make_unique<Sink>(token)));
    const SampledToken sampled = token.get_future().get();
    ASSERT_EQ(sampled.id, prompt[cut]);
    EXPECT_EQ(all.prompt[cut - 1].id, sampled.id);
    EXPECT_EQ(all.prompt[cut - 1].logprob, sampled.logprob) << cut;
    ASSERT_EQ(all.prompt[cut - 1].top.size(), 2u);
    EXPECT_EQ(all.prompt[cut - 1].top[0].logprob, sampled.top[0].logprob);
  }

  const auto logprobs = [](const PromptLogprobs& scores) {
    std::vector<float> out;
    for (const SampledToken& token : scores) out.push_back(token.logprob);
    return out;
  };
  const std::vector<float> expected = logprobs(all.prompt);
  const Outcome tail = scored(*engine, 100);
  EXPECT_GT(tail.result.usage.cache.cached_tokens, 0);  // what is not asked for may be
  EXPECT_EQ(logprobs(tail.prompt), std::vector<float>(expected.begin() + 99, expected.end()));
  EXPECT_TRUE(scored(*engine, 150).prompt.empty());

  auto chopped = start({.threads = 2, .prefill_chunk = 16, .max_running = 3});
  auto neighbour = submit(*chopped, greedy(prompt_of(90, 4), 20));
  EXPECT_EQ(logprobs(scored(*chopped, 1).prompt), expected);
  neighbour.get();

  GenerateRequest beyond = greedy(prompt, 1);
  beyond.prompt_logprobs_from = 151;
  EXPECT_FALSE(engine->submit(std::move(beyond), std::make_unique<CollectingSink>()));
}

}  // namespace
}  // namespace tandem
