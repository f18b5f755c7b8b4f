#include "train/run/pretrain_run.h"

#include <algorithm>

#include "model/checkpoint.h"
#include "model/config.h"
#include "model/input.h"
#include "model/make_random.h"
#include "train/run/chain_evaluation.h"
#include "train/run/metrics_file.h"

namespace tandem::train {
namespace {

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{4} << 20;
constexpr int kStatesKept = 2;
constexpr std::int64_t kLines = 20;  // told in a run, beside evaluations

// Random weights of the configuration, by way of a checkpoint that is removed again.
Result<ModelWeights> random_weights(const TrainConfig& config, const ModelSpec& spec) {
  const std::filesystem::path folder = config.output / "start";
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  TRY(make_random_checkpoint(config.pretrain.model_config, folder, {.seed = config.seed}));
  Checkpoint checkpoint = TRY(Checkpoint::open(folder));
  ModelWeights weights = TRY(load_weights(spec, std::move(checkpoint)));
  std::filesystem::remove_all(folder, ignored);
  return weights;
}

class PretrainingRun {
 public:
  PretrainingRun(const TrainConfig& config, const TrainListener& listener, const Clock& clock,
                 ThreadTeam& team, ModelSpec spec, std::string model_config, ModelWeights start)
      : config_(config),
        listener_(listener),
        clock_(clock),
        team_(team),
        spec_(std::move(spec)),
        model_config_(std::move(model_config)),
        weights_(spec_, std::move(start)),
        trainer_(
            spec_, weights_, config.pretrain.trainer,
            [this](std::uint64_t index, PackedBatch& batch) {
              const ChainExample example = chain_example(config_.task, config_.seed, index);
              batch.add(example.tokens, example.first_scored);
            },
            cpu_kernels(), team),
        metrics_(config.output / "metrics.jsonl"),
        started_(clock.now()) {}

  Result<void> run() {
    TRY(resume());
    const std::int64_t every = std::max<std::int64_t>(1, config_.pretrain.trainer.steps / kLines);
    while (!trainer_.done()) {
      const PretrainStep step = TRY(trainer_.step());
      TRY(tell(step, step.step % every == 0 || trainer_.done()));
      const std::int64_t done = trainer_.next_step();
      if (done % config_.save_interval == 0 || trainer_.done()) TRY(save());
      const std::int64_t interval = config_.eval_interval;
      if (interval > 0 && done % interval == 0 && !trainer_.done()) TRY(evaluate());
    }
    return evaluate();
  }

 private:
  std::filesystem::path states() const { return config_.output / "states"; }

  Result<void> resume() {
    auto state = load_newest_state(states(), trainer_.layout());
    if (!state && state.error().code != StatusCode::kNotFound) return fail(state.error());
    if (state) {
      TRY(trainer_.restore(*std::move(state)));
      listener_(fmt::format("going on from step {}", trainer_.next_step()));
    }
    return metrics_.rewind_to(trainer_.next_step());
  }

  Result<void> tell(const PretrainStep& step, bool aloud) {
    const double seconds = milliseconds(started_, clock_.now()) / 1000;
    TRY(metrics_.append(metrics_line("pretrain", step.step,
                                     {{"loss", step.loss},
                                      {"grad_norm", step.gradient_norm},
                                      {"lr", static_cast<double>(step.rate)},
                                      {"tokens", static_cast<double>(step.tokens)},
                                      {"seconds", seconds}})));
    if (aloud) {
      listener_(fmt::format("step {:>5}  loss {:.3f}  gradient {:.2f}  lr {:.1e}  {:.1f} s",
                            step.step, step.loss, step.gradient_norm, step.rate, seconds));
    }
    return {};
  }

  Result<void> save() { return save_state(trainer_.state(), states(), kStatesKept); }

  // The checkpoint as it would be served, and what it can do.
  Result<void> evaluate() {
    TRY(save_checkpoint(spec_, weights_, model_config_, config_.output, config_.pretrain.experts));
    const auto model = TRY(Model::load(config_.output, Precision::kExact, cpu_kernels()));
    const ChainEvaluation eval = TRY(evaluate_chain(config_, *model, team_));
    const auto shown = static_cast<double>(std::max<std::int64_t>(eval.with_work, 1));
    TRY(metrics_.append(
        metrics_line("eval", trainer_.next_step() - 1,
                     {{"accuracy", eval.accuracy()},
                      {"low", eval.low()},
                      {"high", eval.high()},
                      {"with_work", static_cast<double>(eval.with_work)},
                      {"accuracy_with_work", static_cast<double>(eval.right_with_work) / shown}})));
    listener_(fmt::format(
        "held out: {} of {} right ({:.3f} to {:.3f}); {} show their work, {} of these are right",
        eval.right, eval.prompts, eval.low(), eval.high(), eval.with_work, eval.right_with_work));
    return {};
  }

  const TrainConfig& config_;
  const TrainListener& listener_;
  const Clock& clock_;
  ThreadTeam& team_;
  ModelSpec spec_;
  std::string model_config_;
  TrainableWeights<float> weights_;
  Pretrainer trainer_;
  MetricsFile metrics_;
  TimePoint started_;
};

}  // namespace

Result<void> run_pretraining(const TrainConfig& config, const TrainListener& listener,
                             const Clock& clock, ThreadTeam& team) {
  std::filesystem::path file = config.pretrain.model_config;
  if (std::filesystem::is_directory(file)) file /= "config.json";
  std::string text = TRY(read_small_file(file, kMaxConfigBytes));
  ModelSpec spec = TRY(parse_config(text, file.string()));
  if (spec.vocab_size != ChainVocabulary::kSize) {
    return invalid("{}: vocab_size: the task's vocabulary has {} tokens, got {}", file.string(),
                   ChainVocabulary::kSize, spec.vocab_size);
  }
  ModelWeights start = TRY(random_weights(config, spec));
  PretrainingRun run(config, listener, clock, team, std::move(spec), std::move(text),
                     std::move(start));
  return run.run();
}

}  // namespace tandem::train
