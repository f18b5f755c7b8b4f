#include "train/run/reinforce_run.h"

#include <algorithm>

#include "model/checkpoint.h"
#include "model/config.h"
#include "train/generate.h"
#include "train/peft.h"
#include "train/rl/merged_model.h"
#include "train/run/chain_evaluation.h"
#include "train/run/metrics_file.h"

namespace tandem::train {
namespace {

constexpr int kStatesKept = 2;
// Rounds of sampling in which prompts that teach nothing are replaced.
constexpr int kSamplingRounds = 4;

// Weights of the base, twice: one for the trainer, one to merge the adapter into.
struct Base {
  ModelSpec spec;
  ModelWeights weights;
  ModelWeights to_merge;
};

Result<Base> load_base(const std::filesystem::path& folder) {
  Base base;
  base.spec = TRY(read_config(folder));
  for (ModelWeights* weights : {&base.weights, &base.to_merge}) {
    Checkpoint checkpoint = TRY(Checkpoint::open(folder));
    *weights = TRY(load_weights(base.spec, std::move(checkpoint)));
  }
  return base;
}

class ReinforcementRun {
 public:
  ReinforcementRun(const TrainConfig& config, const TrainListener& listener, const Clock& clock,
                   ThreadTeam& team, Base& base, LoraAdapter<float> adapter)
      : config_(config),
        own_(config.reinforce),
        listener_(listener),
        clock_(clock),
        team_(team),
        adapter_(std::move(adapter)),
        trainer_(base.spec, base.weights, adapter_, own_.trainer, cpu_kernels(), Precision::kExact,
                 team),
        merged_(base.spec, std::move(base.to_merge), adapter_, cpu_kernels(), team),
        metrics_(config.output / "metrics.jsonl"),
        started_(clock.now()) {}

  Result<void> run() {
    TRY(resume());
    if (rollout_ == 0) TRY(evaluate());
    while (rollout_ < own_.rollouts) {
      TRY(one_rollout());
      ++rollout_;
      const bool last = rollout_ == own_.rollouts;
      if (last || rollout_ % config_.save_interval == 0) TRY(save());
      const std::int64_t interval = config_.eval_interval;
      if (last || (interval > 0 && rollout_ % interval == 0)) TRY(evaluate());
    }
    return {};
  }

 private:
  std::filesystem::path states() const { return config_.output / "states"; }

  Result<void> resume() {
    auto state = load_newest_state(states(), trainer_.layout());
    if (!state && state.error().code != StatusCode::kNotFound) return fail(state.error());
    if (state) {
      TRY(trainer_.restore(*state));
      rollout_ = state->counters["rollout"];
      next_prompt_ = state->counters["next_prompt"];
      merged_.update(adapter_, team_);
      listener_(fmt::format("going on from rollout {}", rollout_));
    }
    return metrics_.rewind_to(rollout_);
  }

  // Samples of the next `count` prompts of the stream, group by group.
  Result<std::vector<RolloutSample>> draw(std::int64_t count) {
    std::vector<ChainPrompt> prompts;
    std::vector<std::vector<TokenId>> tokens;
    for (std::int64_t p = 0; p < count; ++p) {
      const ChainPrompt prompt = chain_prompt(config_.task, PromptSplit::kTraining, config_.seed,
                                              static_cast<std::uint64_t>(next_prompt_ + p));
      prompts.insert(prompts.end(), static_cast<std::size_t>(own_.samples), prompt);
      tokens.insert(tokens.end(), static_cast<std::size_t>(own_.samples),
                    chain_prompt_tokens(prompt));
    }
    // Every sample of a run has a seed of its own.
    const std::uint64_t seed =
        (config_.seed << 32) + static_cast<std::uint64_t>(next_prompt_ * own_.samples);
    std::vector<Generated> answers = TRY(generate(merged_.model(), tokens,
                                                  {.max_tokens = config_.max_answer_tokens,
                                                   .stop = ChainVocabulary::kEnd,
                                                   .temperature = own_.trainer.temperature,
                                                   .seed = seed},
                                                  team_));
    std::vector<RolloutSample> samples;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      RolloutSample sample;
      sample.reward = chain_reward(prompts[i], answers[i].tokens);
      sample.tokens = tokens[i];
      sample.prompt_tokens = static_cast<std::int64_t>(tokens[i].size());
      sample.tokens.insert(sample.tokens.end(), answers[i].tokens.begin(), answers[i].tokens.end());
      sample.behaviour = std::move(answers[i].log_probs);
      sample.group = next_prompt_ + static_cast<std::int64_t>(i) / own_.samples;
      samples.push_back(std::move(sample));
    }
    next_prompt_ += count;
    return samples;
  }

  bool informative(std::span<const RolloutSample> group) const {
    std::vector<double> rewards;
    for (const RolloutSample& sample : group) rewards.push_back(sample.reward);
    return group_is_informative(rewards);
  }

  // One rollout's samples; with dynamic sampling only of prompts whose rewards differ.
  Result<std::vector<RolloutSample>> rollout_samples() {
    std::vector<RolloutSample> all;
    const auto size = static_cast<std::size_t>(own_.samples);
    for (int round = 0; round < (own_.dynamic_sampling ? kSamplingRounds : 1); ++round) {
      const auto have = static_cast<std::int64_t>(all.size() / size);
      if (have == own_.prompts) break;
      std::vector<RolloutSample> drawn = TRY(draw(own_.prompts - have));
      for (std::size_t first = 0; first < drawn.size(); first += size) {
        const std::span<RolloutSample> group = std::span(drawn).subspan(first, size);
        drawn_reward_ += group_reward(group);
        ++drawn_groups_;
        if (own_.dynamic_sampling && !informative(group)) continue;
        std::move(group.begin(), group.end(), std::back_inserter(all));
      }
    }
    return all;
  }

  static double group_reward(std::span<const RolloutSample> group) {
    double sum = 0;
    for (const RolloutSample& sample : group) sum += sample.reward;
    return sum / static_cast<double>(group.size());
  }

  Result<void> one_rollout() {
    const TimePoint begin = clock_.now();
    drawn_reward_ = 0;
    drawn_groups_ = 0;
    const std::vector<RolloutSample> samples = TRY(rollout_samples());
    const TimePoint drawn = clock_.now();
    PolicyReport report;
    if (!samples.empty()) report = TRY(trainer_.train(samples));
    merged_.update(adapter_, team_);
    const TimePoint end = clock_.now();
    return tell(report, milliseconds(begin, drawn) / 1000, milliseconds(drawn, end) / 1000);
  }

  Result<void> tell(const PolicyReport& report, double rollout_s, double train_s) {
    const double reward =
        drawn_reward_ / static_cast<double>(std::max<std::int64_t>(drawn_groups_, 1));
    const PolicyMismatch& mismatch = report.mismatch;
    TRY(metrics_.append(
        metrics_line("reinforce", rollout_,
                     {{"rollout/raw_reward", reward},
                      {"rollout/groups", static_cast<double>(drawn_groups_)},
                      {"rollout/response_len", report.answer_tokens},
                      {"train/loss", report.loss},
                      {"train/entropy", report.entropy},
                      {"train/kl_loss", report.kl},
                      {"train/pg_clipfrac", report.clip_share},
                      {"train/grad_norm", report.gradient_norm},
                      {"train/lr", static_cast<double>(report.rate)},
                      {"train/train_rollout_logprob_abs_diff", mismatch.mean_abs_difference()},
                      {"train/train_rollout_logprob_max_diff", mismatch.max_difference},
                      {"train/train_rollout_kl", mismatch.mean_kl()},
                      {"train/ess_ratio", mismatch.effective_sample_share()},
                      {"perf/rollout_time", rollout_s},
                      {"perf/train_time", train_s}})));
    const double left = milliseconds(started_, clock_.now()) / 1000 / static_cast<double>(++done_) *
                        static_cast<double>(own_.rollouts - rollout_ - 1);
    listener_(
        fmt::format("rollout {:>4}  reward {:.3f}  length {:.1f}  entropy {:.3f}  gradient {:.2f}  "
                    "log-prob gap {:.1e} (KL {:.1e})  {:.1f} + {:.1f} s, {:.0f} s left",
                    rollout_, reward, report.answer_tokens, report.entropy, report.gradient_norm,
                    mismatch.mean_abs_difference(), mismatch.mean_kl(), rollout_s, train_s, left));
    return {};
  }

  Result<void> save() {
    TrainerState state = trainer_.state();
    state.counters["rollout"] = rollout_;
    state.counters["next_prompt"] = next_prompt_;
    TRY(save_peft(adapter_, config_.output / "adapter", own_.base.string()));
    return save_state(state, states(), kStatesKept);
  }

  Result<void> evaluate() {
    const ChainEvaluation eval = TRY(evaluate_chain(config_, merged_.model(), team_));
    // Stands with the rollout after which it was made; the one before the first with 0.
    TRY(metrics_.append(metrics_line("eval", std::max<std::int64_t>(rollout_ - 1, 0),
                                     {{"accuracy", eval.accuracy()},
                                      {"low", eval.low()},
                                      {"high", eval.high()},
                                      {"with_work", static_cast<double>(eval.with_work)}})));
    listener_(fmt::format("held out: {} of {} right ({:.3f} to {:.3f}); {} show their work",
                          eval.right, eval.prompts, eval.low(), eval.high(), eval.with_work));
    return {};
  }

  const TrainConfig& config_;
  const TrainConfig::Reinforce& own_;
  const TrainListener& listener_;
  const Clock& clock_;
  ThreadTeam& team_;
  LoraAdapter<float> adapter_;
  PolicyTrainer trainer_;
  MergedModel merged_;
  MetricsFile metrics_;
  TimePoint started_;
  std::int64_t rollout_ = 0;
  std::int64_t next_prompt_ = 0;
  std::int64_t done_ = 0;
  double drawn_reward_ = 0;
  std::int64_t drawn_groups_ = 0;
};

}  // namespace

Result<void> run_reinforcement(const TrainConfig& config, const TrainListener& listener,
                               const Clock& clock, ThreadTeam& team) {
  Base base = TRY(load_base(config.reinforce.base));
  if (base.spec.vocab_size != ChainVocabulary::kSize) {
    return invalid("{}: vocab_size: the task's vocabulary has {} tokens, got {}",
                   config.reinforce.base.string(), ChainVocabulary::kSize, base.spec.vocab_size);
  }
  LoraAdapter<float> adapter =
      TRY(LoraAdapter<float>::create(base.spec, base.weights, config.reinforce.lora, config.seed));
  ReinforcementRun run(config, listener, clock, team, base, std::move(adapter));
  return run.run();
}

}  // namespace tandem::train
