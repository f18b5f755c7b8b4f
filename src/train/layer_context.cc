#include "train/layer_context.h"

#include "train/ops/linear.h"
#include "train/products.h"

namespace tandem::train {
namespace {

// y = factor x
template <typename T>
void scale_into(T factor, ConstRows<T> x, Rows<T> y) {
  for (std::int64_t t = 0; t < x.rows; ++t) {
    for (std::int64_t i = 0; i < x.columns; ++i) y.row(t)[i] = factor * x.row(t)[i];
  }
}

}  // namespace

template <typename T>
Rows<T> LayerContext<T>::project(ConstRows<T> x, const WeightMatrix& w) const {
  const Rows<T> y = workspace.take(x.rows, w.outputs);
  project(x, w, y);
  return y;
}

template <typename T>
void LayerContext<T>::project(ConstRows<T> x, const WeightMatrix& w, Rows<T> y) const {
  operators.linear(x, w, y);
  const LoraFactors<T>* lora = trained.lora(w);
  if (lora == nullptr) return;
  typename Workspace<T>::Frame frame(workspace);
  const Rows<T> hidden = workspace.take(x.rows, lora->a.rows);
  const Rows<T> delta = workspace.take(x.rows, w.outputs);
  operators.linear(x, lora->a, hidden);
  operators.linear(hidden, lora->b, delta);
  for (std::int64_t t = 0; t < y.rows; ++t) {
    for (std::int64_t i = 0; i < y.columns; ++i) y.row(t)[i] += lora->scale * delta.row(t)[i];
  }
}

template <typename T>
void LayerContext<T>::input_gradient(const WeightMatrix& w, ConstRows<T> dy, Rows<T> dx) const {
  typename Workspace<T>::Frame frame(workspace);
  // Frozen or not, the gradient passes through what the weight decodes to.
  const Rows<T> values = workspace.take(w.outputs, w.inputs);
  decode_weight<T>(w, values, team);
  add_input_gradient<T>(dy, values, dx, team);
  const LoraFactors<T>* lora = trained.lora(w);
  if (lora == nullptr) return;
  const Rows<T> dhidden = workspace.zeros(dy.rows, lora->b.columns);
  add_input_gradient<T>(dy, lora->b, dhidden, team);
  scale_into<T>(lora->scale, dhidden, dhidden);
  add_input_gradient<T>(dhidden, lora->a, dx, team);
}

template <typename T>
void LayerContext<T>::weight_gradients(ConstRows<T> x, const WeightMatrix& w,
                                       ConstRows<T> dy) const {
  if (const auto dw = trained.gradient(w)) add_weight_gradient<T>(dy, x, *dw, team);
  const LoraFactors<T>* lora = trained.lora(w);
  if (lora == nullptr) return;
  typename Workspace<T>::Frame frame(workspace);
  const Rows<T> hidden = workspace.take(x.rows, lora->a.rows);
  operators.linear(x, lora->a, hidden);
  scale_into<T>(lora->scale, hidden, hidden);
  add_weight_gradient<T>(dy, hidden, lora->db, team);
  const Rows<T> dhidden = workspace.zeros(dy.rows, lora->b.columns);
  add_input_gradient<T>(dy, lora->b, dhidden, team);
  scale_into<T>(lora->scale, dhidden, dhidden);
  add_weight_gradient<T>(dhidden, x, lora->da, team);
}

template <typename T>
Rows<T> LayerContext<T>::merged(const WeightMatrix& w) const {
  const Rows<T> values = workspace.take(w.outputs, w.inputs);
  decode_weight<T>(w, values, team);
  const LoraFactors<T>* lora = trained.lora(w);
  if (lora == nullptr) return values;
  typename Workspace<T>::Frame frame(workspace);
  // scale B, then one product over the rank
  const Rows<T> scaled = workspace.take(w.outputs, lora->b.columns);
  scale_into<T>(lora->scale, lora->b, scaled);
  add_input_gradient<T>(scaled, lora->a, values, team);
  return values;
}

template struct LayerContext<float>;
template struct LayerContext<double>;

}  // namespace tandem::train
