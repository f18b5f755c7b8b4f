#include "measure/step_work.h"

#include <cmath>

namespace tandem::measure {
namespace {

constexpr double kFloatBytes = sizeof(float);

double as_double(std::int64_t value) { return static_cast<double>(value); }

// FLOP a value of the small operators.
constexpr double kNormFlop = 4;    // square, sum, scale, weight
constexpr double kMixRowFlop = 6;  // square, score and weighted sum of one banked row

class Counter {
 public:
  Counter(const ModelSpec& spec, const MemoryLayout& memory, const StepShape& shape)
      : spec_(spec),
        shape_(shape),
        cache_bytes_(as_double(static_cast<std::int64_t>(element_bytes(memory.cache_dtype)))),
        sequences_(as_double(shape.sequences)),
        rows_(sequences_ * as_double(shape.rows_each)) {}

  const StepWork& work() const { return work_; }

  void embed(const WeightMatrix& table) {
    at(Stage::kEmbed).weight_bytes +=
        rows_ * as_double(weight_bytes(table)) / as_double(table.outputs);
  }

  void layer(const LayerSpec& spec, const LayerWeights& weights) {
    mix_and_norm(weights.attention_mix, weights.attention_norm, rows_);
    if (const auto* kda = std::get_if<KdaSpec>(&spec.attention)) {
      attention(*kda, std::get<KdaWeights>(weights.attention));
    } else {
      attention(std::get<MlaSpec>(spec.attention), std::get<MlaWeights>(weights.attention));
    }
    if (spec.starts_block) {
      ++bank_rows_;
    } else {
      at(Stage::kNorms).flop += rows_ * as_double(spec_.hidden);
    }
    mix_and_norm(weights.ffn_mix, weights.ffn_norm, rows_);
    if (const auto* moe = std::get_if<MoeSpec>(&spec.ffn)) {
      experts(*moe, std::get<MoeWeights>(weights.ffn));
    } else {
      dense(std::get<FfnWeights>(weights.ffn));
    }
    at(Stage::kNorms).flop += rows_ * as_double(spec_.hidden);
  }

  void head(const ModelWeights& weights) {
    if (shape_.logit_rows == 0) return;
    mix_and_norm(weights.output_mix, weights.final_norm, rows_);
    product(Stage::kHead, weights.head, as_double(shape_.logit_rows));
  }

 private:
  Work& at(Stage stage) { return work_[static_cast<std::size_t>(stage)]; }

  // A matrix that the spec does without has no outputs.
  void product(Stage stage, const WeightMatrix& w, double rows) {
    at(stage).weight_bytes += as_double(weight_bytes(w));
    at(stage).flop += 2 * rows * as_double(w.outputs) * as_double(w.inputs);
  }
  void vector(Stage stage, const WeightVector& w) {
    at(stage).weight_bytes += kFloatBytes * static_cast<double>(w.size());
  }
  void norm(Stage stage, const WeightVector& w) {
    vector(stage, w);
    at(stage).flop += kNormFlop * rows_ * static_cast<double>(w.size());
  }

  void mix_and_norm(const WeightVector& query, const WeightVector& weight, double rows) {
    norm(Stage::kNorms, weight);
    if (bank_rows_ == 0) return;  // nothing to mix, and the query is not read
    vector(Stage::kNorms, query);
    at(Stage::kNorms).flop +=
        kMixRowFlop * rows * as_double(bank_rows_ + 1) * static_cast<double>(query.size());
  }

  void attention(const KdaSpec& spec, const KdaWeights& w) {
    for (const WeightMatrix* matrix : {&w.q, &w.k, &w.v, &w.decay_down, &w.decay_up, &w.beta,
                                       &w.gate, &w.gate_down, &w.gate_up, &w.out}) {
      product(Stage::kKdaProjections, *matrix, rows_);
    }
    for (const WeightVector* values : {&w.conv, &w.dt_bias, &w.head_rate, &w.out_norm}) {
      vector(Stage::kKdaConvGates, *values);
    }
    const double inner = as_double(spec.inner());
    Work& conv = at(Stage::kKdaConvGates);
    conv.flop += rows_ * inner * (2 * 3 * as_double(spec.conv_width) + kNormFlop);
    const double window = sequences_ * as_double(spec.conv_width - 1) * 3 * inner * cache_bytes_;
    conv.memory_read_bytes += window;
    conv.memory_write_bytes += window;

    Work& recurrence = at(Stage::kKdaRecurrence);
    const double elements = inner * as_double(spec.head_dim);
    recurrence.memory_read_bytes += sequences_ * elements * kFloatBytes;
    recurrence.memory_write_bytes += sequences_ * elements * kFloatBytes;
    recurrence.flop += 7 * rows_ * elements;  // decay, S^T k, the update, S^T q
  }

  void attention(const MlaSpec& spec, const MlaWeights& w) {
    for (const WeightMatrix* matrix : {&w.q, &w.q_down, &w.q_up, &w.kv_down, &w.gate, &w.out}) {
      product(Stage::kMlaProjections, *matrix, rows_);
    }
    norm(Stage::kMlaProjections, w.q_norm);
    norm(Stage::kMlaAttention, w.kv_norm);
    product(Stage::kMlaAttention, w.kv_up, rows_);  // one half before the rows, one behind them
    Work& work = at(Stage::kMlaAttention);
    const double row_bytes = as_double(spec.row_elements()) * cache_bytes_;
    const double rows_each = as_double(shape_.rows_each);
    const double context = as_double(shape_.context);
    work.memory_write_bytes += rows_ * row_bytes;
    work.memory_read_bytes += sequences_ * (context + rows_each) * row_bytes;
    const double pairs = rows_ * (context + (rows_each + 1) / 2);  // a token and a position it sees
    work.flop += pairs * as_double(spec.dims.heads) *
                 (2 * as_double(spec.row_elements()) + 2 * as_double(spec.dims.latent));
  }

  void dense(const FfnWeights& w) {
    for (const WeightMatrix* matrix : {&w.gate, &w.up, &w.down}) {
      product(Stage::kFfnProjections, *matrix, rows_);
    }
  }

  void experts(const MoeSpec& spec, const MoeWeights& w) {
    product(Stage::kFfnProjections, w.router, rows_);
    vector(Stage::kRouter, w.router_bias);
    product(Stage::kFfnProjections, w.latent_down, rows_);
    product(Stage::kFfnProjections, w.latent_up, rows_);
    norm(Stage::kFfnProjections, w.latent_norm);
    const ExpertWeights& any = w.experts.front();
    for (const WeightMatrix* matrix : {&any.gate, &any.up, &any.down}) {
      at(Stage::kExperts).weight_bytes +=
          shape_.distinct_experts * as_double(weight_bytes(*matrix));
      at(Stage::kExperts).flop += 2 * rows_ * as_double(spec.top_k) * as_double(matrix->outputs) *
                                  as_double(matrix->inputs);
    }
    dense(w.shared);
    at(Stage::kNorms).flop += rows_ * as_double(spec_.hidden);
  }

  const ModelSpec& spec_;
  const StepShape& shape_;
  const double cache_bytes_;  // of an element of a row or a window
  const double sequences_;
  const double rows_;  // tokens in all
  std::int64_t bank_rows_ = 0;
  StepWork work_{};
};

}  // namespace

Work& Work::operator+=(const Work& other) {
  weight_bytes += other.weight_bytes;
  memory_read_bytes += other.memory_read_bytes;
  memory_write_bytes += other.memory_write_bytes;
  flop += other.flop;
  return *this;
}

Work& Work::operator/=(double count) {
  weight_bytes /= count;
  memory_read_bytes /= count;
  memory_write_bytes /= count;
  flop /= count;
  return *this;
}

Work total(const StepWork& work) {
  Work sum;
  for (const Work& stage : work) sum += stage;
  return sum;
}

StepWork step_work(const ModelSpec& spec, const ModelWeights& weights, const MemoryLayout& memory,
                   const StepShape& shape) {
  Counter counter(spec, memory, shape);
  counter.embed(weights.embedding);
  for (std::size_t l = 0; l < spec.layers.size(); ++l) {
    counter.layer(spec.layers[l], weights.layers[l]);
  }
  counter.head(weights);
  return counter.work();
}

double expected_distinct_experts(std::int64_t experts, std::int64_t top_k, std::int64_t tokens) {
  const double missed = 1 - as_double(top_k) / as_double(experts);
  return as_double(experts) * (1 - std::pow(missed, as_double(tokens)));
}

}  // namespace tandem::measure
