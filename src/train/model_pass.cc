#include "train/model_pass.h"

#include <algorithm>
#include <variant>

#include "base/check.h"
#include "train/layers.h"
#include "train/ops/linear.h"
#include "train/ops/norm.h"
#include "train/ops/residual_mix.h"

namespace tandem::train {

void PackedBatch::add(std::span<const TokenId> sequence, std::int64_t first_scored) {
  const auto rows = static_cast<std::int64_t>(sequence.size()) - 1;
  CHECK(rows >= 1 && first_scored >= 1, "a sequence of {} tokens, scored from {} on",
        sequence.size(), first_scored);
  const auto first_row = static_cast<std::int64_t>(tokens.size());
  tokens.insert(tokens.end(), sequence.begin(), sequence.end() - 1);
  sequences.push_back({first_row, rows});
  for (std::int64_t i = first_scored; i <= rows; ++i) {
    scored.push_back({first_row + i - 1, sequence[static_cast<std::size_t>(i)]});
  }
}

namespace {

// Logits are made for so many rows at once that this many of them fit.
constexpr std::int64_t kLogitsAtOnce = std::int64_t{1} << 22;

// An owned [rows, columns] matrix that keeps its memory from batch to batch.
template <typename T>
class KeptMatrix {
 public:
  Rows<T> resize(std::int64_t rows, std::int64_t columns) {
    values_.resize(static_cast<std::size_t>(rows * columns));
    view_ = {values_.data(), rows, columns, columns};
    return view_;
  }
  Rows<T> view() const { return view_; }

 private:
  std::vector<T> values_;
  Rows<T> view_;
};

template <typename T>
void add_to(ConstRows<T> x, Rows<T> y) {
  for (std::int64_t t = 0; t < x.rows; ++t) {
    for (std::int64_t i = 0; i < x.columns; ++i) y.row(t)[i] += x.row(t)[i];
  }
}

// One layer's intermediates.
template <typename T>
struct LayerTape {
  std::variant<KdaTape<T>, MlaTape<T>> attention;
  std::variant<FfnTape<T>, MoeTape<T>> ffn;
  ConstRows<T> attention_mixed, ffn_mixed;  // what the norms read
  Rows<T> attention_normed, ffn_normed;
  Rows<T> middle;  // the stream between the two sub-layers
};

}  // namespace

template <typename T>
struct ModelPass<T>::State {
  const ModelSpec& spec;
  const ModelWeights& weights;
  const TrainedWeights<T>& trained;
  ThreadTeam& team;
  Workspace<T> workspace;
  ForwardOperators<T> operators;

  const PackedBatch* batch = nullptr;
  float temperature = 1;
  std::vector<KeptMatrix<T>> streams;  // [layers + 1] of [T, hidden]: what enters each layer
  KeptMatrix<T> final_normed;          // [T, hidden]
  KeptMatrix<T> dstream;               // [T, hidden]
  std::vector<std::vector<std::int64_t>> expert_load;  // [layers], of the last forward
  RecordedRoutes routes;                               // likewise
  std::vector<KeptMatrix<T>> bank_gradients;           // of the banked streams, oldest first

  State(const ModelSpec& s, const ModelWeights& w, const TrainedWeights<T>& t,
        const KernelSet& kernels, Precision precision, ThreadTeam& threads)
      : spec(s),
        weights(w),
        trained(t),
        team(threads),
        operators(kernels, precision, workspace, threads),
        streams(s.layers.size() + 1),
        expert_load(s.layers.size()),
        routes(s.layers.size()) {}

  LayerContext<T> context() {
    return {spec, operators, trained, batch->sequences, workspace, team};
  }
  std::int64_t rows() const { return static_cast<std::int64_t>(batch->tokens.size()); }
  Rows<T> fresh() { return workspace.take(rows(), spec.hidden); }

  // The streams banked by layers before `layer`, then `stream`: what a mix reads.
  std::vector<ConstRows<T>> mix_rows(std::size_t layer, ConstRows<T> stream) const {
    std::vector<ConstRows<T>> made;
    for (std::size_t l = 0; l < layer; ++l) {
      if (spec.layers[l].starts_block) made.push_back(streams[l].view());
    }
    made.push_back(stream);
    return made;
  }

  ConstRows<T> mix(std::size_t layer, ConstRows<T> stream, const WeightVector& query) {
    const auto mixed_rows = mix_rows(layer, stream);
    if (mixed_rows.size() == 1) return stream;
    const Rows<T> mixed = fresh();
    operators.residual_mix(mixed_rows, query.data(), spec.norm_eps, mixed);
    return mixed;
  }

  void mix_backward(std::size_t layer, ConstRows<T> stream, const WeightVector& query,
                    ConstRows<T> dmixed, Rows<T> dx) {
    const auto mixed_rows = mix_rows(layer, stream);
    if (mixed_rows.size() == 1) return add_to(dmixed, dx);
    std::vector<Rows<T>> drows;
    for (std::size_t b = 0; b + 1 < mixed_rows.size(); ++b) {
      drows.push_back(bank_gradients[b].view());
    }
    drows.push_back(dx);
    residual_mix_backward<T>(mixed_rows, query.data(), spec.norm_eps, dmixed, drows,
                             trained.gradient(query), team);
  }

  const std::int32_t* recorded_routes(std::size_t l, const MoeSpec& moe) const {
    if (batch->routes.empty()) return nullptr;
    const auto wanted = static_cast<std::size_t>(rows() * moe.top_k);
    CHECK(batch->routes[l].size() == wanted, "{} recorded experts of layer {} for {}",
          batch->routes[l].size(), l, wanted);
    return batch->routes[l].data();
  }
  LayerTape<T> layer_forward(std::size_t l, Rows<T> out);
  void record_experts(std::size_t l, const LayerTape<T>& tape) {
    const auto* moe = std::get_if<MoeTape<T>>(&tape.ffn);
    if (moe == nullptr) return;
    routes[l] = moe->ids;
    expert_load[l].assign(static_cast<std::size_t>(moe->logits.columns), 0);
    for (const std::int32_t id : moe->ids) ++expert_load[l][static_cast<std::size_t>(id)];
  }
  void layer_backward(std::size_t l, const LayerTape<T>& tape);
  void norm_backward(ConstRows<T> x, const WeightVector& weight, ConstRows<T> dy, Rows<T> dx) {
    rms_norm_backward<T>(x, weight.data(), spec.norm_eps, dy, dx, trained.gradient(weight), team);
  }

  // body(first, count, hidden, logits, targets) over pieces of the scored rows.
  template <typename Body>
  void for_logit_pieces(const Body& body);
  void head_backward(std::span<const TokenScoreGradient> gradients, Rows<T> dnormed);
};

// `out` [T, hidden] receives the stream after the layer.
template <typename T>
LayerTape<T> ModelPass<T>::State::layer_forward(std::size_t l, Rows<T> out) {
  const LayerSpec& layer = spec.layers[l];
  const LayerWeights& w = weights.layers[l];
  const LayerContext<T> ctx = context();
  const ConstRows<T> stream = streams[l].view();
  LayerTape<T> tape;
  tape.attention_mixed = mix(l, stream, w.attention_mix);
  tape.attention_normed = fresh();
  operators.rms_norm(tape.attention_mixed, w.attention_norm.data(), spec.norm_eps,
                     tape.attention_normed);
  tape.middle = fresh();
  if (const auto* kda = std::get_if<KdaSpec>(&layer.attention)) {
    tape.attention = kda_forward<T>(ctx, *kda, std::get<KdaWeights>(w.attention),
                                    tape.attention_normed, tape.middle);
  } else {
    tape.attention =
        mla_forward<T>(ctx, std::get<MlaSpec>(layer.attention), std::get<MlaWeights>(w.attention),
                       tape.attention_normed, tape.middle);
  }
  // A layer that starts a block banks the stream and goes on from the attention output alone.
  if (!layer.starts_block) operators.add(stream, tape.middle, tape.middle);

  tape.ffn_mixed = mix(l + 1, tape.middle, w.ffn_mix);
  tape.ffn_normed = fresh();
  operators.rms_norm(tape.ffn_mixed, w.ffn_norm.data(), spec.norm_eps, tape.ffn_normed);
  if (const auto* moe = std::get_if<MoeSpec>(&layer.ffn)) {
    const std::int32_t* replayed = recorded_routes(l, *moe);
    tape.ffn =
        moe_forward<T>(ctx, *moe, std::get<MoeWeights>(w.ffn), replayed, tape.ffn_normed, out);
  } else {
    tape.ffn = ffn_forward<T>(ctx, std::get<FfnWeights>(w.ffn), tape.ffn_normed, out);
  }
  operators.add(tape.middle, out, out);
  return tape;
}

// `dstream` turns from the gradient of the stream after the layer into that of the one before.
template <typename T>
void ModelPass<T>::State::layer_backward(std::size_t l, const LayerTape<T>& tape) {
  const LayerSpec& layer = spec.layers[l];
  const LayerWeights& w = weights.layers[l];
  const LayerContext<T> ctx = context();
  const Rows<T> d = dstream.view();
  const Rows<T> dnormed = workspace.zeros(rows(), spec.hidden);
  if (const auto* moe = std::get_if<MoeSpec>(&layer.ffn)) {
    moe_backward<T>(ctx, *moe, std::get<MoeWeights>(w.ffn), std::get<MoeTape<T>>(tape.ffn),
                    tape.ffn_normed, d, dnormed);
  } else {
    ffn_backward<T>(ctx, std::get<FfnWeights>(w.ffn), std::get<FfnTape<T>>(tape.ffn),
                    tape.ffn_normed, d, dnormed);
  }
  const Rows<T> dmixed = workspace.zeros(rows(), spec.hidden);
  norm_backward(tape.ffn_mixed, w.ffn_norm, dnormed, dmixed);
  mix_backward(l + 1, tape.middle, w.ffn_mix, dmixed, d);

  // `d` is now the gradient of the stream between the sub-layers, so of the attention's output.
  const Rows<T> dattention = workspace.zeros(rows(), spec.hidden);
  if (const auto* kda = std::get_if<KdaSpec>(&layer.attention)) {
    kda_backward<T>(ctx, *kda, std::get<KdaWeights>(w.attention),
                    std::get<KdaTape<T>>(tape.attention), tape.attention_normed, d, dattention);
  } else {
    mla_backward<T>(ctx, std::get<MlaSpec>(layer.attention), std::get<MlaWeights>(w.attention),
                    std::get<MlaTape<T>>(tape.attention), tape.attention_normed, d, dattention);
  }
  const Rows<T> dattention_mixed = workspace.zeros(rows(), spec.hidden);
  norm_backward(tape.attention_mixed, w.attention_norm, dattention, dattention_mixed);
  if (layer.starts_block) {
    // The stream before the layer is the bank's newest row: what reached it from all its readers.
    const Rows<T> banked = bank_gradients[mix_rows(l, {}).size() - 1].view();
    std::copy_n(banked.data, rows() * spec.hidden, d.data);
  }
  mix_backward(l, streams[l].view(), w.attention_mix, dattention_mixed, d);
}

template <typename T>
template <typename Body>
void ModelPass<T>::State::for_logit_pieces(const Body& body) {
  const auto total = static_cast<std::int64_t>(batch->scored.size());
  const std::int64_t piece = std::max<std::int64_t>(1, kLogitsAtOnce / spec.vocab_size);
  for (std::int64_t first = 0; first < total; first += piece) {
    typename Workspace<T>::Frame frame(workspace);
    const std::int64_t count = std::min(piece, total - first);
    const Rows<T> hidden = workspace.take(count, spec.hidden);
    std::vector<TokenId> targets;
    for (std::int64_t i = 0; i < count; ++i) {
      const ScoredRow& scored = batch->scored[static_cast<std::size_t>(first + i)];
      std::copy_n(final_normed.view().row(scored.row), spec.hidden, hidden.row(i));
      targets.push_back(scored.target);
    }
    body(static_cast<std::size_t>(first), static_cast<std::size_t>(count), hidden,
         context().project(hidden, weights.head), targets);
  }
}

template <typename T>
void ModelPass<T>::State::head_backward(std::span<const TokenScoreGradient> gradients,
                                        Rows<T> dnormed) {
  for_logit_pieces([&](std::size_t first, std::size_t count, Rows<T> hidden, Rows<T> logits,
                       const std::vector<TokenId>& targets) {
    score_tokens_backward<T>(logits, targets, temperature, gradients.subspan(first, count), logits);
    const Rows<T> dhidden = workspace.zeros(hidden.rows, hidden.columns);
    context().project_backward(hidden, weights.head, logits, dhidden);
    for (std::size_t i = 0; i < count; ++i) {
      const T* from = dhidden.row(static_cast<std::int64_t>(i));
      T* to = dnormed.row(batch->scored[first + i].row);
      for (std::int64_t c = 0; c < spec.hidden; ++c) to[c] += from[c];
    }
  });
}

template <typename T>
ModelPass<T>::ModelPass(const ModelSpec& spec, const ModelWeights& weights,
                        const TrainedWeights<T>& trained, const KernelSet& kernels,
                        Precision precision, ThreadTeam& team)
    : state_(std::make_unique<State>(spec, weights, trained, kernels, precision, team)) {}

template <typename T>
ModelPass<T>::~ModelPass() = default;

template <typename T>
std::vector<TokenScore> ModelPass<T>::forward(const PackedBatch& batch, float temperature) {
  State& s = *state_;
  CHECK(batch.routes.empty() || batch.routes.size() == s.spec.layers.size(),
        "routes of {} layers for {}", batch.routes.size(), s.spec.layers.size());
  s.batch = &batch;
  s.temperature = temperature;
  s.operators.embed(s.weights.embedding, batch.tokens,
                    s.streams.front().resize(s.rows(), s.spec.hidden));
  const std::size_t layers = s.spec.layers.size();
  for (std::size_t l = 0; l < layers; ++l) {
    typename Workspace<T>::Frame frame(s.workspace);
    const LayerTape<T> tape = s.layer_forward(l, s.streams[l + 1].resize(s.rows(), s.spec.hidden));
    s.record_experts(l, tape);
  }
  typename Workspace<T>::Frame frame(s.workspace);
  s.operators.rms_norm(s.mix(layers, s.streams.back().view(), s.weights.output_mix),
                       s.weights.final_norm.data(), s.spec.norm_eps,
                       s.final_normed.resize(s.rows(), s.spec.hidden));
  std::vector<TokenScore> scores(batch.scored.size());
  s.for_logit_pieces([&](std::size_t first, std::size_t count, Rows<T>, Rows<T> logits,
                         const std::vector<TokenId>& targets) {
    score_tokens<T>(logits, targets, temperature, std::span(scores).subspan(first, count));
  });
  return scores;
}

template <typename T>
const std::vector<std::int64_t>& ModelPass<T>::expert_load(std::size_t layer) const {
  return state_->expert_load.at(layer);
}

template <typename T>
const RecordedRoutes& ModelPass<T>::routes() const {
  return state_->routes;
}

template <typename T>
void ModelPass<T>::backward(std::span<const TokenScoreGradient> gradients) {
  State& s = *state_;
  CHECK(s.batch != nullptr && gradients.size() == s.batch->scored.size(),
        "{} gradients after a forward pass of another batch", gradients.size());
  const std::size_t layers = s.spec.layers.size();
  const auto clear = [&](KeptMatrix<T>& matrix) {
    const Rows<T> view = matrix.resize(s.rows(), s.spec.hidden);
    std::fill_n(view.data, s.rows() * s.spec.hidden, T(0));
  };
  clear(s.dstream);
  s.bank_gradients.resize(s.mix_rows(layers, {}).size() - 1);
  for (KeptMatrix<T>& gradient : s.bank_gradients) clear(gradient);
  {
    typename Workspace<T>::Frame frame(s.workspace);
    const Rows<T> dnormed = s.workspace.zeros(s.rows(), s.spec.hidden);
    s.head_backward(gradients, dnormed);
    const ConstRows<T> last = s.streams.back().view();
    const Rows<T> dmixed = s.workspace.zeros(s.rows(), s.spec.hidden);
    s.norm_backward(s.mix(layers, last, s.weights.output_mix), s.weights.final_norm, dnormed,
                    dmixed);
    s.mix_backward(layers, last, s.weights.output_mix, dmixed, s.dstream.view());
  }
  for (std::size_t l = layers; l-- > 0;) {
    typename Workspace<T>::Frame frame(s.workspace);
    const LayerTape<T> tape = s.layer_forward(l, s.fresh());
    s.layer_backward(l, tape);
  }
  if (const auto dtable = s.trained.gradient(s.weights.embedding)) {
    embed_backward<T>(s.batch->tokens, s.dstream.view(), *dtable);
  }
}

template class ModelPass<float>;
template class ModelPass<double>;

}  // namespace tandem::train
