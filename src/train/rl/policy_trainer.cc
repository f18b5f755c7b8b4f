#include "train/rl/policy_trainer.h"

#include <algorithm>

namespace tandem::train {

// A sample with what was computed for it before the first step.
struct PolicyTrainer::Scored {
  const RolloutSample* sample = nullptr;
  double advantage = 0;
  std::vector<double> old = {};  // empty: taken from the loss's own pass
  std::vector<double> behaviour = {};
  std::vector<double> reference = {};  // empty without a KL term

  std::int64_t rows() const { return static_cast<std::int64_t>(sample->tokens.size()) - 1; }
  std::int64_t answer_tokens() const {
    return static_cast<std::int64_t>(sample->tokens.size()) - sample->prompt_tokens;
  }
  std::int64_t learnt_tokens() const {
    if (sample->mask.empty()) return answer_tokens();
    return std::count_if(sample->mask.begin(), sample->mask.end(), [](auto m) { return m != 0; });
  }
  void add_to(PackedBatch& batch) const { batch.add(sample->tokens, sample->prompt_tokens); }
};

namespace {

Result<void> check_sample(const RolloutSample& sample, std::size_t index) {
  const auto tokens = static_cast<std::int64_t>(sample.tokens.size());
  if (sample.prompt_tokens < 1 || sample.prompt_tokens >= tokens) {
    return invalid("sample {}: {} prompt tokens of {}; expected at least one, and an answer", index,
                   sample.prompt_tokens, tokens);
  }
  const auto answer = static_cast<std::size_t>(tokens - sample.prompt_tokens);
  if (sample.behaviour.size() != answer) {
    return invalid("sample {}: {} log-probs for {} answer tokens", index, sample.behaviour.size(),
                   answer);
  }
  if (!sample.mask.empty() && sample.mask.size() != answer) {
    return invalid("sample {}: a mask of {} for {} answer tokens", index, sample.mask.size(),
                   answer);
  }
  return {};
}

// body(micro) over runs of neighbours that have at most `max_rows` rows together.
template <typename Item, typename Body>
void for_micro_batches(std::span<Item> items, std::int64_t max_rows, const Body& body) {
  std::size_t first = 0;
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > first && rows + items[i].rows() > max_rows) {
      body(items.subspan(first, i - first));
      first = i;
      rows = 0;
    }
    rows += items[i].rows();
  }
  if (first < items.size()) body(items.subspan(first));
}

// Log-probs of each item's answer, from one forward pass over all.
template <typename Item>
std::vector<std::vector<double>> score_items(ModelPass<float>& pass, std::span<Item> items,
                                             float temperature) {
  PackedBatch batch;
  for (const Item& item : items) item.add_to(batch);
  const std::vector<TokenScore> scores = pass.forward(batch, temperature);
  std::vector<std::vector<double>> made;
  std::size_t next = 0;
  for (const Item& item : items) {
    auto& own = made.emplace_back();
    for (std::int64_t i = 0; i < item.answer_tokens(); ++i) own.push_back(scores[next++].log_prob);
  }
  return made;
}

}  // namespace

PolicyTrainer::PolicyTrainer(const ModelSpec& spec, const ModelWeights& weights,
                             LoraAdapter<float>& adapter, const PolicyTrainerConfig& config,
                             const KernelSet& kernels, Precision precision, ThreadTeam& team)
    : adapter_(adapter),
      config_(config),
      pass_(spec, weights, trained_, kernels, precision, team),
      reference_pass_(spec, weights, nothing_, kernels, precision, team),
      optimiser_(config.optimiser, adapter.values().size()) {
  adapter_.attach_to(trained_);
}

std::vector<PolicyTrainer::Scored> PolicyTrainer::prepare(std::span<const RolloutSample> samples) {
  std::vector<double> rewards;
  std::vector<std::int64_t> groups, lengths;
  std::vector<Scored> all;
  for (const RolloutSample& sample : samples) {
    rewards.push_back(sample.reward);
    groups.push_back(sample.group);
    all.push_back(
        {.sample = &sample, .behaviour = {sample.behaviour.begin(), sample.behaviour.end()}});
    lengths.push_back(all.back().learnt_tokens());
  }
  std::vector<double> advantages = group_advantages(rewards, groups, config_.advantage_scale);
  if (config_.whiten) whiten_advantages(advantages, lengths);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].advantage = advantages[i];
  return all;
}

void PolicyTrainer::fill_reference(std::span<Scored> all) {
  for_micro_batches(all, config_.micro_batch_rows, [&](std::span<Scored> micro) {
    auto scores = score_items(reference_pass_, micro, config_.temperature);
    for (std::size_t i = 0; i < micro.size(); ++i) micro[i].reference = std::move(scores[i]);
  });
}

std::vector<std::vector<double>> PolicyTrainer::score(std::span<const RolloutSample> samples) {
  std::vector<Scored> all;
  for (const RolloutSample& sample : samples) all.push_back({.sample = &sample});
  std::vector<std::vector<double>> made;
  for_micro_batches(std::span(all), config_.micro_batch_rows, [&](std::span<Scored> micro) {
    for (auto& own : score_items(pass_, micro, config_.temperature)) made.push_back(std::move(own));
  });
  return made;
}

// Adds one micro-batch's gradients and its part of the report.
void PolicyTrainer::accumulate(std::span<Scored> micro, std::span<const double> weights,
                               PolicyReport& report) {
  PackedBatch batch;
  for (const Scored& item : micro) item.add_to(batch);
  const std::vector<TokenScore> scores = pass_.forward(batch, config_.temperature);
  std::vector<TokenScoreGradient> gradients;
  for (std::size_t i = 0; i < micro.size(); ++i) {
    Scored& item = micro[i];
    std::vector<double> policy, entropy;
    for (std::int64_t t = 0; t < item.answer_tokens(); ++t) {
      const TokenScore& score = scores[gradients.size() + static_cast<std::size_t>(t)];
      policy.push_back(score.log_prob);
      entropy.push_back(score.entropy);
    }
    // One step a batch: the policy is still the one that the batch began with.
    if (item.old.empty()) item.old = policy;
    const SampleScores sample{policy,         item.old,          item.behaviour,
                              item.reference, item.sample->mask, item.advantage};
    const auto factors = correction_factors(config_.correction, sample);
    const SampleObjective made =
        sample_objective(config_.objective, sample, weights[i], factors, entropy);
    gradients.insert(gradients.end(), made.gradients.begin(), made.gradients.end());
    report.loss += made.sums.loss;
    report.kl += made.sums.kl;
    report.clip_share += static_cast<double>(made.sums.clipped);
    report.mismatch.add(sample);
    for (std::size_t t = 0; t < entropy.size(); ++t) {
      if (sample.counts(t)) report.entropy += entropy[t];
    }
  }
  pass_.backward(gradients);
}

Result<void> PolicyTrainer::take_step(std::span<Scored> part, PolicyReport& report) {
  std::vector<std::int64_t> lengths, groups;
  for (const Scored& item : part) {
    lengths.push_back(item.learnt_tokens());
    groups.push_back(item.sample->group);
  }
  // Over the whole step, before it is cut into micro-batches.
  const std::vector<double> weights =
      token_weights(config_.aggregation, lengths, groups, config_.max_answer_tokens);
  adapter_.clear_gradients();
  std::size_t done = 0;
  for_micro_batches(part, config_.micro_batch_rows, [&](std::span<Scored> micro) {
    accumulate(micro, std::span(weights).subspan(done, micro.size()), report);
    done += micro.size();
  });
  report.gradient_norm = TRY(clip_gradients(adapter_.mutable_gradients(), config_.clip));
  report.rate = config_.rate.rate_at(optimiser_.state().steps);
  optimiser_.step(adapter_.mutable_values(), adapter_.gradients(), report.rate);
  return {};
}

Result<PolicyReport> PolicyTrainer::train(std::span<const RolloutSample> samples) {
  if (samples.empty()) return invalid("no samples to train on");
  for (std::size_t i = 0; i < samples.size(); ++i) TRY(check_sample(samples[i], i));
  std::vector<Scored> all = prepare(samples);
  if (config_.objective.kl_coefficient != 0) fill_reference(all);
  const auto steps = static_cast<std::size_t>(
      std::clamp<std::int64_t>(config_.steps_per_batch, 1, static_cast<std::int64_t>(all.size())));
  if (steps > 1) {
    auto old = score(samples);
    for (std::size_t i = 0; i < all.size(); ++i) all[i].old = std::move(old[i]);
  }
  PolicyReport report;
  for (std::size_t s = 0; s < steps; ++s) {
    const std::size_t first = all.size() * s / steps;
    TRY(take_step(std::span(all).subspan(first, all.size() * (s + 1) / steps - first), report));
  }
  for (const Scored& item : all) {
    report.tokens += item.learnt_tokens();
    report.answer_tokens += static_cast<double>(item.answer_tokens());
    report.reward += item.sample->reward;
  }
  const auto samples_count = static_cast<double>(all.size());
  const auto tokens = static_cast<double>(std::max<std::int64_t>(report.tokens, 1));
  report.step = optimiser_.state().steps;
  report.samples = static_cast<std::int64_t>(all.size());
  report.reward /= samples_count;
  report.answer_tokens /= samples_count;
  report.loss /= static_cast<double>(steps);
  report.kl /= static_cast<double>(steps);
  report.entropy /= tokens;
  report.clip_share /= tokens;
  return report;
}

std::string PolicyTrainer::layout() const {
  std::string text;
  for (const LoraModule& m : adapter_.modules()) {
    text += fmt::format("{} {} {}x{}\n", m.path(), m.rank, m.outputs(), m.inputs());
  }
  return text;
}

TrainerState PolicyTrainer::state() const {
  return {.layout = layout(),
          .counters = {{"step", optimiser_.state().steps}},
          .buffers = {},
          .values = adapter_.values(),
          .optimiser = optimiser_.state()};
}

Result<void> PolicyTrainer::restore(const TrainerState& state) {
  if (state.layout != layout() || state.values.size() != adapter_.values().size()) {
    return invalid("the saved state is of another adapter");
  }
  std::copy(state.values.begin(), state.values.end(), adapter_.mutable_values().begin());
  optimiser_.restore(state.optimiser);
  return {};
}

}  // namespace tandem::train
