#include "engine/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <future>

#include "base/philox.h"
#include "engine/answer_trace.h"
#include "engine/engine_memory.h"

namespace tandem {
namespace {

constexpr std::array kCacheStates = {CacheState::kCold, CacheState::kWarm, CacheState::kEvicted};
constexpr double kClearGap = 0.25;        // in standard deviations of the logits
constexpr double kDepartingShare = 0.02;  // of the answers in a cell

struct Answer {
  std::vector<TokenId> tokens;
  AnswerTrace trace;
  GenerateResult result;
};

class CollectingSink final : public TokenSink {
 public:
  CollectingSink(Answer& answer, std::promise<void> done)
      : answer_(answer), done_(std::move(done)) {}
  Verdict on_token(const SampledToken& token) override {
    answer_.tokens.push_back(token.id);
    return Verdict::kContinue;
  }
  void on_finish(const GenerateResult& result) override {
    answer_.result = result;
    done_.set_value();
  }

 private:
  Answer& answer_;
  std::promise<void> done_;
};

using Prompts = std::vector<std::vector<TokenId>>;

// One engine over the shared model, and what its steps show.
class Bench {
 public:
  static Result<std::unique_ptr<Bench>> create(const std::shared_ptr<const Model>& model,
                                               EngineOptions options, const Clock& clock) {
    auto bench = std::unique_ptr<Bench>(new Bench(*model));
    options.observer = &bench->recorder_;
    bench->engine_ = TRY(Engine::create(model, options, clock));
    return bench;
  }

  Engine& engine() { return *engine_; }

  // All at once.
  Result<std::vector<Answer>> ask(const Prompts& prompts, std::int64_t answer_tokens) {
    std::vector<Answer> answers(prompts.size());
    std::vector<std::future<void>> done;
    std::vector<RequestId> ids;
    Status failure;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      GenerateRequest request;
      request.prompt = prompts[i];
      request.sampling.temperature = 0;
      request.max_tokens = answer_tokens;
      // A second checkpoint on the way, to fall back to when the last one is evicted.
      request.history_tokens = static_cast<std::int64_t>(prompts[i].size()) * 3 / 4;
      std::promise<void> promise;
      std::future<void> future = promise.get_future();
      auto submitted = engine_->submit(
          std::move(request), std::make_unique<CollectingSink>(answers[i], std::move(promise)));
      if (!submitted) {
        failure = submitted.error();
        break;
      }
      ids.push_back(*submitted);
      done.push_back(std::move(future));
    }
    for (std::future<void>& each : done) each.wait();
    if (ids.size() < prompts.size()) return fail(std::move(failure));
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      if (answers[i].result.reason == FinishReason::kError) {
        return fail(answers[i].result.status);
      }
      answers[i].trace = recorder_.take(ids[i]);
    }
    return answers;
  }

  // Evicts states that begin the prompts until what is found of them has become less.
  void evict_last_states(const Prompts& prompts) {
    engine_->inspect([&](EngineInternals inside) {
      const auto usable = [&] {
        std::int64_t tokens = 0;
        for (const auto& prompt : prompts) {
          tokens += inside.cache
                        .match(CacheNamespace{}.key(), prompt,
                               static_cast<std::int64_t>(prompt.size()) - 1)
                        .usable_tokens;
        }
        return tokens;
      };
      const std::int64_t before = usable();
      while (usable() > before * 9 / 10 && inside.cache.evict_one()) {
      }
    });
  }

 private:
  explicit Bench(const Model& model)
      : recorder_(static_cast<std::int64_t>(model.spec().layers.size())) {}

  TraceRecorder recorder_;
  std::unique_ptr<Engine> engine_;  // after the recorder, which it uses to its end
};

// Compares some answers of one cell with the reference.
void compare(std::span<const Answer> reference, std::span<const Answer> answers,
             std::size_t first_prompt, std::int64_t layers, std::size_t cell,
             VerifyReport& report) {
  VerifyCell& row = report.cells[cell];
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Answer &expected = reference[i], &got = answers[i];
    ++row.prompts;
    row.cached_tokens += got.result.usage.cache.cached_tokens;
    const std::int64_t from = got.result.usage.prompt_tokens;
    bool equal = got.tokens.size() == expected.tokens.size();
    for (std::size_t t = 0; t < expected.tokens.size(); ++t) {
      const std::int64_t position = from + static_cast<std::int64_t>(t);
      const auto chosen = got.trace.choices.find(position);
      const AnswerTrace::Choice& wanted = expected.trace.choices.at(position);
      equal = equal && chosen != got.trace.choices.end() &&
              chosen->second.logits_hash == wanted.logits_hash;
      if (t < got.tokens.size() && got.tokens[t] == expected.tokens[t]) continue;
      ++row.other_tokens;
      report.differences.push_back(
          {.cell = cell,
           .prompt = static_cast<std::int64_t>(first_prompt + i),
           .position = position,
           .gap = wanted.gap,
           .expert_layer = first_other_experts(expected.trace, got.trace, layers, position)});
      break;
    }
    row.bit_equal += equal ? 1 : 0;
  }
}

std::string name(const VerifyCell& cell) {
  static constexpr std::string_view kCaches[] = {"cold", "warm", "evicted"};
  return fmt::format("{} cache, chunks of {}, {}", kCaches[static_cast<std::size_t>(cell.cache)],
                     cell.chunk == 0 ? "any length" : std::to_string(cell.chunk),
                     cell.crowd ? "together" : "alone");
}

void judge(VerifyReport& report) {
  for (const VerifyCell& cell : report.cells) {
    if (cell.cache != CacheState::kCold && cell.cached_tokens == 0) {
      report.failure = fmt::format("{}: nothing was read from the cache", name(cell));
      return;
    }
    if (report.precision == Precision::kExact && cell.bit_equal < cell.prompts) {
      report.failure = fmt::format("{}: {} of {} answers are not bit-equal", name(cell),
                                   cell.prompts - cell.bit_equal, cell.prompts);
      return;
    }
    if (static_cast<double>(cell.other_tokens) >
        kDepartingShare * static_cast<double>(cell.prompts)) {
      report.failure = fmt::format("{}: {} of {} answers depart from the reference", name(cell),
                                   cell.other_tokens, cell.prompts);
      return;
    }
  }
  for (const VerifyDifference& difference : report.differences) {
    if (difference.gap <= kClearGap || difference.expert_layer >= 0) continue;
    report.failure = fmt::format(
        "{}: prompt {} departs at token {}, where the gap is {:.2f} standard deviations and all "
        "experts are the same",
        name(report.cells[difference.cell]), difference.prompt, difference.position,
        difference.gap);
    return;
  }
}

}  // namespace

std::vector<std::vector<TokenId>> random_prompts(const ModelSpec& spec, std::int64_t count,
                                                 std::int64_t longest, std::uint64_t seed) {
  Prompts prompts(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const double share = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 1;
    const auto tokens =
        static_cast<std::size_t>(std::lround(std::pow(static_cast<double>(longest), share)));
    for (std::size_t t = 0; t < tokens; ++t) {
      const auto random =
          philox(seed, {static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(i), 0, 0});
      prompts[i].push_back(
          static_cast<TokenId>(random[0] % static_cast<std::uint32_t>(spec.vocab_size)));
    }
  }
  return prompts;
}

Result<VerifyReport> verify(std::shared_ptr<const Model> model, const Prompts& prompts,
                            const VerifyOptions& options, const Clock& clock) {
  const auto layers = static_cast<std::int64_t>(model->spec().layers.size());
  std::int64_t longest = 1;
  for (const auto& prompt : prompts) {
    longest = std::max(longest, static_cast<std::int64_t>(prompt.size()));
  }
  const std::int64_t grid_tokens = cache_grid_tokens(options.page_tokens);
  if (longest <= grid_tokens) {
    return invalid(
        "the longest prompt has {} tokens; with pages of {} only a prefix of {} and a token more "
        "can be found in the cache: ask for longer prompts or smaller pages",
        longest, options.page_tokens, grid_tokens);
  }
  const auto engine_options = [&](std::int64_t chunk) {
    EngineOptions engine;
    engine.threads = options.threads;
    engine.prefill_chunk = chunk > 0 ? chunk : longest;
    engine.max_queued = static_cast<std::int64_t>(prompts.size());
    engine.page_tokens = options.page_tokens;
    return engine;
  };
  const auto rounds = static_cast<double>((1 + 2 * options.chunks.size()) * prompts.size());
  double rounds_done = 0;
  const auto progress = [&](std::size_t done) {
    rounds_done += static_cast<double>(done);
    if (options.progress) options.progress(rounds_done / rounds);
  };

  EngineOptions plain = engine_options(0);
  plain.prefix_cache = false;
  plain.loop = LoopMode::kSimple;
  auto alone = TRY(Bench::create(model, plain, clock));
  std::vector<Answer> reference;
  for (const auto& prompt : prompts) {
    reference.push_back(std::move(TRY(alone->ask({prompt}, options.answer_tokens))[0]));
    progress(1);
  }
  alone.reset();

  VerifyReport report;
  report.precision = model->precision();
  for (const std::int64_t chunk : options.chunks) {
    auto bench = TRY(Bench::create(model, engine_options(chunk), clock));
    for (const bool crowd : {false, true}) {
      std::vector<Prompts> groups;
      if (crowd) {
        groups.push_back(prompts);
      } else {
        for (const auto& prompt : prompts) groups.push_back({prompt});
      }
      const std::size_t first_cell = report.cells.size();
      for (const CacheState cache : kCacheStates) {
        report.cells.push_back({.cache = cache, .chunk = chunk, .crowd = crowd});
      }
      std::size_t first_prompt = 0;
      for (const Prompts& group : groups) {
        const std::span<const Answer> expected(reference.data() + first_prompt, group.size());
        for (std::size_t i = 0; i < kCacheStates.size(); ++i) {
          const CacheState cache = kCacheStates[i];
          if (cache == CacheState::kCold) bench->engine().flush_cache();
          if (cache == CacheState::kEvicted) bench->evict_last_states(group);
          if (cache != CacheState::kCold && options.sabotage) {
            bench->engine().inspect(options.sabotage);
          }
          const TimePoint begin = clock.now();
          const auto answers = TRY(bench->ask(group, options.answer_tokens));
          report.cells[first_cell + i].ms += milliseconds(begin, clock.now());
          compare(expected, answers, first_prompt, layers, first_cell + i, report);
        }
        first_prompt += group.size();
        progress(group.size());
      }
    }
  }
  judge(report);
  return report;
}

std::string to_text(const VerifyReport& report) {
  std::string text = fmt::format("{:<44} {:>8} {:>10} {:>13} {:>9}\n", "cell", "cached",
                                 "bit-equal", "other tokens", "seconds");
  for (const VerifyCell& cell : report.cells) {
    text +=
        fmt::format("{:<44} {:>8} {:>6}/{:<3} {:>13} {:>9.2f}\n", name(cell), cell.cached_tokens,
                    cell.bit_equal, cell.prompts, cell.other_tokens, cell.ms / 1000);
  }
  for (const VerifyDifference& difference : report.differences) {
    text += fmt::format("{}: prompt {} departs at token {}, gap {:.3f} std, {}\n",
                        name(report.cells[difference.cell]), difference.prompt, difference.position,
                        difference.gap,
                        difference.expert_layer < 0
                            ? "same experts"
                            : fmt::format("other experts from layer {}", difference.expert_layer));
  }
  text += report.passed() ? "passed\n" : fmt::format("FAILED: {}\n", report.failure);
  return text;
}

}  // namespace tandem
