#include "train/layers.h"
#include "train/ops/mla.h"
#include "train/ops/norm.h"

namespace tandem::train {

template <typename T>
MlaTape<T> mla_forward(const LayerContext<T>& context, const MlaSpec& spec,
                       const MlaWeights& weights, ConstRows<T> x, Rows<T> y) {
  Workspace<T>& workspace = context.workspace;
  const float eps = context.spec.latent_norm_eps;
  MlaTape<T> tape;
  if (spec.q_rank) {
    tape.q_raw = context.project(x, weights.q_down);
    tape.q_normed = workspace.take(x.rows, *spec.q_rank);
    context.operators.rms_norm(tape.q_raw, weights.q_norm.data(), eps, tape.q_normed);
    tape.q = context.project(tape.q_normed, weights.q_up);
  } else {
    tape.q = context.project(x, weights.q);
  }
  tape.compressed = context.project(x, weights.kv_down);
  tape.o = workspace.take(x.rows, spec.dims.heads * spec.dims.value);
  {
    typename Workspace<T>::Frame frame(workspace);
    LatentAttentionArgs<T> args{.dims = spec.dims,
                                .q = tape.q,
                                .compressed = tape.compressed,
                                .norm_weight = weights.kv_norm.data(),
                                .eps = eps,
                                .kv_b = weights.kv_up,
                                .o = tape.o};
    // The absorbed form reads kv_b from both sides, so an adapter has to be part of it.
    if (context.trained.lora(weights.kv_up) != nullptr) {
      args.merged_kv_b = context.merged(weights.kv_up);
    }
    context.operators.latent_attention(args, context.sequences);
  }
  tape.gated = tape.o;
  if (spec.output_gate) {
    tape.gate = context.project(x, weights.gate);
    tape.gated = workspace.take(x.rows, tape.o.columns);
    context.operators.sigmoid_gate(tape.o, tape.gate, tape.gated);
  }
  context.project(tape.gated, weights.out, y);
  return tape;
}

namespace {

// From the gradient of the attention's output to those of q and of the compressed rows.
template <typename T>
void latent_attention_backward(const LayerContext<T>& context, const MlaSpec& spec,
                               const MlaWeights& weights, const MlaTape<T>& tape, ConstRows<T> d_o,
                               Rows<T> dq, Rows<T> dcompressed) {
  Workspace<T>& workspace = context.workspace;
  const MlaDims& dims = spec.dims;
  const float eps = context.spec.latent_norm_eps;
  const ConstRows<T> raw = ConstRows<T>(tape.compressed).slice(0, dims.latent);
  const ConstRows<T> pe = ConstRows<T>(tape.compressed).slice(dims.latent, dims.pe);
  const Rows<T> latent = workspace.take(d_o.rows, dims.latent);
  context.operators.rms_norm(raw, weights.kv_norm.data(), eps, latent);
  const Rows<T> kv = context.project(latent, weights.kv_up);
  const Rows<T> dkv = workspace.zeros(d_o.rows, kv.columns);
  attention_backward<T>(dims, {tape.q, kv, pe}, context.sequences, d_o,
                        {dq, dkv, dcompressed.slice(dims.latent, dims.pe)}, context.team);
  const Rows<T> dlatent = workspace.zeros(d_o.rows, dims.latent);
  context.project_backward(latent, weights.kv_up, dkv, dlatent);
  rms_norm_backward<T>(raw, weights.kv_norm.data(), eps, dlatent, dcompressed.slice(0, dims.latent),
                       context.trained.gradient(weights.kv_norm), context.team);
}

}  // namespace

template <typename T>
void mla_backward(const LayerContext<T>& context, const MlaSpec& spec, const MlaWeights& weights,
                  const MlaTape<T>& tape, ConstRows<T> x, ConstRows<T> dy, Rows<T> dx) {
  Workspace<T>& workspace = context.workspace;
  typename Workspace<T>::Frame frame(workspace);
  Rows<T> d_o = workspace.zeros(x.rows, tape.o.columns);
  context.project_backward(tape.gated, weights.out, dy, d_o);
  if (spec.output_gate) {
    const Rows<T> dgated = d_o;
    d_o = workspace.zeros(x.rows, tape.o.columns);
    const Rows<T> dgate = workspace.zeros(x.rows, tape.o.columns);
    sigmoid_gate_backward<T>(tape.o, tape.gate, dgated, d_o, dgate, context.team);
    context.project_backward(x, weights.gate, dgate, dx);
  }
  const Rows<T> dq = workspace.zeros(x.rows, tape.q.columns);
  const Rows<T> dcompressed = workspace.zeros(x.rows, tape.compressed.columns);
  latent_attention_backward(context, spec, weights, tape, ConstRows<T>(d_o), dq, dcompressed);
  context.project_backward(x, weights.kv_down, dcompressed, dx);
  if (!spec.q_rank) {
    context.project_backward(x, weights.q, dq, dx);
    return;
  }
  const Rows<T> dnormed = workspace.zeros(x.rows, *spec.q_rank);
  context.project_backward(tape.q_normed, weights.q_up, dq, dnormed);
  const Rows<T> draw = workspace.zeros(x.rows, *spec.q_rank);
  rms_norm_backward<T>(tape.q_raw, weights.q_norm.data(), context.spec.latent_norm_eps, dnormed,
                       draw, context.trained.gradient(weights.q_norm), context.team);
  context.project_backward(x, weights.q_down, draw, dx);
}

#define INSTANTIATE(T)                                                                       \
  template MlaTape<T> mla_forward(const LayerContext<T>&, const MlaSpec&, const MlaWeights&, \
                                  ConstRows<T>, Rows<T>);                                    \
  template void mla_backward(const LayerContext<T>&, const MlaSpec&, const MlaWeights&,      \
                             const MlaTape<T>&, ConstRows<T>, ConstRows<T>, Rows<T>);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tandem::train
