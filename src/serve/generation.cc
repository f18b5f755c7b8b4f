#include "serve/generation.h"

#include <utility>

#include "serve/random_bits.h"
#include "serve/running_answer.h"

namespace tandem {
namespace {

// Ends an answer that goes on beyond its deadline, as if it had been cancelled.
class DeadlineSink final : public TokenSink {
 public:
  DeadlineSink(std::unique_ptr<TokenSink> inner, const Clock& clock, TimePoint deadline)
      : inner_(std::move(inner)), clock_(clock), deadline_(deadline) {}

  Verdict on_token(const SampledToken& token) override {
    if (inner_->on_token(token) == Verdict::kStop) return Verdict::kStop;
    late_ = clock_.now() >= deadline_;
    return late_ ? Verdict::kStop : Verdict::kContinue;
  }

  void on_finish(const GenerateResult& result) override {
    GenerateResult own = result;
    if (late_ && own.reason == FinishReason::kStop) own.reason = FinishReason::kCancelled;
    inner_->on_finish(own);
  }

 private:
  const std::unique_ptr<TokenSink> inner_;
  const Clock& clock_;
  const TimePoint deadline_;
  bool late_ = false;
};

// Passes on to `answer` what the engine reports of one choice.
std::unique_ptr<TokenSink> choice_sink(const ServeContext& context, AnswerStream stream,
                                       const std::shared_ptr<HttpExchange>& exchange,
                                       const std::shared_ptr<RunningAnswer>& answer, int choice) {
  return std::make_unique<AnswerSink>(
      std::move(stream),
      [exchange, answer, choice](std::vector<OutputEvent> events, const SampledToken* token) {
        auto sampled = token != nullptr ? std::optional(*token) : std::nullopt;
        exchange->post([answer, choice, events = std::move(events), sampled] {
          answer->on_events(choice, events, sampled);
        });
      },
      [exchange, answer, choice, &totals = context.totals](const AnswerResult& result) {
        totals.add(result.result);
        exchange->post([answer, choice, result] { answer->on_end(choice, result); });
      });
}

Result<Grammar::Pointer> grammar_of(const ServedModel& model, const Generation& generation,
                                    const GenerationPrompt& prompt) {
  auto grammar =
      prompt.grammar.and_then([&](const GrammarSource& source) { return model.compiled(source); });
  if (!grammar && generation.grammar_error != nullptr) {
    grammar = tl::unexpected(generation.grammar_error(grammar.error()));
  }
  return grammar;
}

Result<RequestId> submit_choice(const ServeContext& context, const Generation& generation,
                                const GenerationPrompt& prompt, const Grammar::Pointer& grammar,
                                std::uint64_t seed, std::unique_ptr<TokenSink> sink) {
  SamplingParams sampling = generation.sampling;
  sampling.seed = seed;
  if (generation.deadline) {
    sink = std::make_unique<DeadlineSink>(std::move(sink), context.clock, *generation.deadline);
  }
  std::vector<TokenId> stop_ids = generation.stop_ids;
  if (grammar != nullptr) {
    // A text that is complete ends, whatever stop ids were asked for.
    const auto& ends = context.model.stop_ids;
    stop_ids.insert(stop_ids.end(), ends.begin(), ends.end());
  }
  return context.model.engine->submit(
      {.prompt = prompt.ids,
       .sampling = std::move(sampling),
       .max_tokens = generation.max_tokens,
       .prompt_logprobs_from = generation.prompt_logprobs_from,
       .stop_ids = std::move(stop_ids),
       .constraint = context.model.constraint(grammar),
       .cache = {.salt = generation.cache_salt},
       .tenant = generation.tenant,
       .tenant_weight = generation.tenant_weight,
       .priority = generation.priority,
       .deadline = generation.deadline},
      context.log.watch(static_cast<std::int64_t>(prompt.ids.size()), std::move(sink)));
}

}  // namespace

void start_generation(const ServeContext& context, Generation generation,
                      RequestRegistry::Lease lease, const std::shared_ptr<HttpExchange>& exchange,
                      std::unique_ptr<AnswerWriter> writer, ErrorFormat error_format) {
  // Shared by the sinks of all choices, which the engine owns.
  const auto answer = std::make_shared<RunningAnswer>(exchange, std::move(writer),
                                                      generation.answers(), std::move(lease));
  Engine* const engine = context.model.engine.get();
  const std::uint64_t seed = generation.seed ? *generation.seed : random_bits();
  std::vector<RequestId> ids;
  Result<Grammar::Pointer> grammar = nullptr;  // of the prompt whose choices are submitted
  for (int number = 0; number < generation.answers(); ++number) {
    const int prompt_index = number / generation.choices;
    const int choice = number % generation.choices;
    const GenerationPrompt& prompt = generation.prompts[static_cast<std::size_t>(prompt_index)];
    if (choice == 0) grammar = grammar_of(context.model, generation, prompt);
    const auto id = grammar.and_then([&](const Grammar::Pointer& bound) {
      return submit_choice(context, generation, prompt, bound,
                           seed + static_cast<std::uint64_t>(choice),
                           choice_sink(context, prompt.answer_stream(), exchange, answer, number));
    });
    if (!id) {
      for (const RequestId submitted : ids) engine->cancel(submitted);
      exchange->post([answer, response = error_format(id.error())] { answer->refuse(response); });
      return;
    }
    ids.push_back(*id);
  }
  exchange->post([answer, engine, ids = std::move(ids)] {
    answer->begin([engine, ids] {
      for (const RequestId id : ids) engine->cancel(id);
    });
  });
}

}  // namespace tandem
