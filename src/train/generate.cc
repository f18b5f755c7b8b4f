#include "train/generate.h"

#include <memory>

#include "model/sequence_memory.h"
#include "sample/sampler.h"

namespace tandem::train {
namespace {

constexpr std::int64_t kPageTokens = 16;
// Prompts that run together: bounds the memory of an evaluation.
constexpr std::size_t kTogether = 256;

// One answer on its way.
struct Running {
  std::size_t index = 0;
  SequenceMemory memory;
  Sampler sampler;
  std::vector<TokenId> next;  // to be computed in the next step
  std::int64_t position = 0;

  Running(std::size_t i, const Model& model, const std::vector<TokenId>& prompt,
          const GenerateOptions& options)
      : index(i),
        memory(model.memory().total, kPageTokens),
        sampler({.temperature = options.temperature, .seed = options.seed + i, .top_logprobs = 0},
                prompt),
        next(prompt) {}

  SequenceInput input() {
    memory.reserve_tokens(position + static_cast<std::int64_t>(next.size()));
    return {.tokens = next, .start = position, .state = memory.state(), .pages = memory.pages()};
  }
};

// Computes one step and appends each answer's next token.
Result<void> run_step(const Model& model, std::vector<std::unique_ptr<Running>>& running,
                      Scratch& scratch, ThreadTeam& team, std::vector<Generated>& answers) {
  std::vector<SequenceInput> inputs;
  for (const auto& one : running) inputs.push_back(one->input());
  const auto rows = static_cast<std::int64_t>(inputs.size());
  Scratch::Frame frame(scratch);
  const Activations logits = scratch.take(rows, model.spec().vocab_size);
  model.forward({.sequences = inputs, .page_tokens = kPageTokens}, scratch, team, logits);
  for (std::int64_t i = 0; i < rows; ++i) {
    Running& one = *running[static_cast<std::size_t>(i)];
    const SampledToken token =
        TRY(one.sampler.next({logits.row(i), static_cast<std::size_t>(logits.columns)}));
    one.position += static_cast<std::int64_t>(one.next.size());
    one.next.assign(1, token.id);
    answers[one.index].tokens.push_back(token.id);
    answers[one.index].log_probs.push_back(token.logprob);
  }
  return {};
}

}  // namespace

Result<std::vector<Generated>> generate(const Model& model,
                                        std::span<const std::vector<TokenId>> prompts,
                                        const GenerateOptions& options, ThreadTeam& team) {
  std::vector<Generated> answers(prompts.size());
  Scratch scratch;
  for (std::size_t first = 0; first < prompts.size(); first += kTogether) {
    std::vector<std::unique_ptr<Running>> running;
    for (std::size_t i = first; i < std::min(prompts.size(), first + kTogether); ++i) {
      running.push_back(std::make_unique<Running>(i, model, prompts[i], options));
    }
    for (std::int64_t step = 0; step < options.max_tokens && !running.empty(); ++step) {
      TRY(run_step(model, running, scratch, team, answers));
      std::erase_if(running, [&](const std::unique_ptr<Running>& one) {
        Generated& answer = answers[one->index];
        answer.stopped = answer.tokens.back() == options.stop;
        return answer.stopped;
      });
    }
  }
  return answers;
}

}  // namespace tandem::train
