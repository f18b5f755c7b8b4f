#include "train/run/train_config.h"

#include "train/run/toml_table.h"

namespace tandem::train {
namespace {

constexpr std::int64_t kMany = 1'000'000'000;

void read_rate(TomlTable& table, RateSchedule& rate, std::int64_t steps) {
  table.read("lr", rate.peak, 0, 1);
  table.read("lr_warmup_steps", rate.warmup_steps, 0, kMany);
  table.read("lr_final_share", rate.final_share, 0, 1);
  table.choose<Schedule>("lr_schedule", rate.kind,
                         {{"constant", Schedule::kConstant},
                          {"linear", Schedule::kLinear},
                          {"cosine", Schedule::kCosine}});
  rate.total_steps = steps;
}

void read_optimiser(TomlTable& table, AdamWConfig& optimiser, double& clip) {
  table.read("adam_beta1", optimiser.beta1, 0, 0.9999);
  table.read("adam_beta2", optimiser.beta2, 0, 0.99999);
  table.read("adam_eps", optimiser.epsilon, 0, 1);
  table.read("weight_decay", optimiser.weight_decay, 0, 1);
  table.read("clip_grad", clip, 1e-9, 1e9);
}

Result<void> read_task(const toml::table* table, const std::string& source, ChainTaskConfig& task) {
  if (table == nullptr) return {};
  TomlTable reader(*table, source, "task");
  std::string name = "chain";
  reader.choose<std::string>("name", name, {{"chain", "chain"}});
  std::int64_t modulus = task.modulus, low = task.min_operators, high = task.max_operators;
  reader.read("modulus", modulus, 2, 10);
  reader.read("operators", task.operators);
  reader.read("min_operators", low, 1, 8);
  reader.read("max_operators", high, 1, 8);
  if (high < low) reader.complain("max_operators", "is below min_operators");
  if (task.operators.empty() || task.operators.find_first_not_of("+-*") != std::string::npos) {
    reader.complain("operators", "expected some of + - *");
  }
  task.modulus = static_cast<int>(modulus);
  task.min_operators = static_cast<int>(low);
  task.max_operators = static_cast<int>(high);
  return reader.finish();
}

Result<void> read_pretrain(const toml::table& table, const std::string& source,
                           TrainConfig::Pretrain& to) {
  TomlTable reader(table, source, "pretrain");
  reader.require("model_config");
  reader.read("model_config", to.model_config);
  reader.read("steps", to.trainer.steps, 1, kMany);
  reader.read("batch", to.trainer.batch, 1, 1'000'000);
  reader.read("balance_rate", to.trainer.balance_rate, 0, 1);
  reader.choose<ExpertStorage>("experts", to.experts,
                               {{"mxfp4", ExpertStorage::kMxfp4}, {"f32", ExpertStorage::kF32}});
  read_rate(reader, to.trainer.rate, to.trainer.steps);
  read_optimiser(reader, to.trainer.optimiser, to.trainer.clip);
  return reader.finish();
}

void read_objective(TomlTable& reader, PolicyTrainerConfig& trainer) {
  ObjectiveConfig& objective = trainer.objective;
  using Ratio = ObjectiveConfig::Ratio;
  reader.choose<Ratio>("advantage_estimator", objective.ratio,
                       {{"grpo", Ratio::kToken}, {"gspo", Ratio::kSequence}});
  reader.choose<AdvantageScale>("advantage_scale", trainer.advantage_scale,
                                {{"group", AdvantageScale::kGroupStd},
                                 {"none", AdvantageScale::kNone},
                                 {"batch", AdvantageScale::kBatchStd}});
  reader.read("normalize_advantages", trainer.whiten);
  reader.read("eps_clip", objective.clip_low, 0, 1);
  objective.clip_high = objective.clip_low;
  reader.read("eps_clip_high", objective.clip_high, 0, 1e9);
  double dual = 0;
  reader.read("eps_clip_c", dual, 1, 1e9);
  if (dual > 0) objective.dual_clip = dual;
  reader.read("kl_loss_coef", objective.kl_coefficient, 0, 1e3);
  reader.choose<KlEstimator>("kl_loss_type", objective.kl,
                             {{"k1", KlEstimator::kK1},
                              {"k2", KlEstimator::kK2},
                              {"k3", KlEstimator::kK3},
                              {"low_var_kl", KlEstimator::kLowVariance}});
  reader.read("use_unbiased_kl", objective.unbiased_kl);
  reader.read("entropy_coef", objective.entropy_coefficient, -1e3, 1e3);
  double delta = -1;
  reader.read("opsm_delta", delta, 0, 1e3);
  if (delta >= 0) objective.off_policy_delta = delta;
  reader.choose<LossAggregation>("loss_aggregation", trainer.aggregation,
                                 {{"sample_mean", LossAggregation::kSampleMean},
                                  {"token_mean", LossAggregation::kTokenMean},
                                  {"constant", LossAggregation::kConstant},
                                  {"prompt_token_mean", LossAggregation::kPromptTokenMean}});
}

void read_correction(TomlTable& reader, CorrectionConfig& correction) {
  reader.choose<Correction>("correction", correction.kind,
                            {{"none", Correction::kNone},
                             {"tis", Correction::kTruncate},
                             {"icepop", Correction::kIcePop},
                             {"mis", Correction::kMask}});
  reader.choose<CorrectionLevel>("correction_level", correction.level,
                                 {{"token", CorrectionLevel::kToken},
                                  {"sequence", CorrectionLevel::kSequence},
                                  {"geometric", CorrectionLevel::kGeometric}});
  reader.read("tis_clip", correction.high, 0, 1e9);
  reader.read("tis_clip_low", correction.low, 0, 1e9);
  reader.read("veto_below", correction.veto_below, 0, 1);
}

Result<void> read_reinforce(const toml::table& table, const std::string& source,
                            TrainConfig::Reinforce& to) {
  TomlTable reader(table, source, "reinforce");
  reader.require("base");
  reader.read("base", to.base);
  reader.read("num_rollout", to.rollouts, 1, kMany);
  reader.read("rollout_batch_size", to.prompts, 1, 1'000'000);
  reader.read("n_samples_per_prompt", to.samples, 1, 1'000'000);
  reader.read("num_steps_per_rollout", to.trainer.steps_per_batch, 1, 1'000);
  reader.read("rollout_temperature", to.trainer.temperature, 0.01, 100);
  reader.read("dynamic_sampling", to.dynamic_sampling);
  reader.read("lora_rank", to.lora.rank, 1, 4096);
  reader.read("lora_alpha", to.lora.alpha, 1e-6, 1e6);
  reader.read("use_rslora", to.lora.rank_stabilised);
  to.lora.targets = {"all-linear"};
  reader.read("target_modules", to.lora.targets);
  read_objective(reader, to.trainer);
  read_correction(reader, to.trainer.correction);
  read_rate(reader, to.trainer.rate, to.rollouts * to.trainer.steps_per_batch);
  read_optimiser(reader, to.trainer.optimiser, to.trainer.clip);
  return reader.finish();
}

}  // namespace

Result<TrainConfig> parse_train_config(std::string_view text, std::string_view source) {
  const toml::parse_result parsed = toml::parse(text, source);
  const std::string from(source);
  if (!parsed) {
    return invalid("{}:{}: {}", from, parsed.error().source().begin.line,
                   parsed.error().description());
  }
  TomlTable reader(parsed.table(), from, "");
  TrainConfig config;
  using Kind = TrainConfig::Kind;
  reader.require("kind");
  reader.require("output");
  reader.choose<Kind>("kind", config.kind,
                      {{"pretrain", Kind::kPretrain}, {"reinforce", Kind::kReinforce}});
  reader.read("output", config.output);
  std::int64_t seed = 0, threads = 0;
  reader.read("seed", seed, 0, kMany);
  reader.read("threads", threads, 0, 4096);
  config.seed = static_cast<std::uint64_t>(seed);
  config.threads = static_cast<int>(threads);
  reader.read("save_interval", config.save_interval, 1, kMany);
  reader.read("eval_interval", config.eval_interval, 0, kMany);
  reader.read("eval_prompts", config.eval_prompts, 1, 1'000'000);
  reader.read("rollout_max_response_len", config.max_answer_tokens, 1, 1'000'000);
  const char* section = config.kind == Kind::kPretrain ? "pretrain" : "reinforce";
  const toml::table* task = reader.table("task");
  const toml::table* own = reader.table(section);
  if (own == nullptr) reader.complain(section, "is missing");
  TRY(reader.finish());
  TRY(read_task(task, from, config.task));
  if (config.kind == Kind::kPretrain) {
    TRY(read_pretrain(*own, from, config.pretrain));
  } else {
    TRY(read_reinforce(*own, from, config.reinforce));
    config.reinforce.trainer.max_answer_tokens = config.max_answer_tokens;
  }
  return config;
}

}  // namespace tandem::train
