#include "train/ops/router.h"

namespace tandem::train {
namespace {

// What an expert's weight is proportional to.
template <typename T>
double raw_weight(const RouterArgs& shape, const T* logits, std::int32_t id) {
  const double score = sigmoid<double>(logits[id]);
  return shape.bias_in_weights ? score + shape.bias[id] : score;
}

template <typename T>
double raw_sum(const RouterArgs& shape, const T* logits, const std::int32_t* ids) {
  double sum = 0;
  for (std::int64_t i = 0; i < shape.top_k; ++i) sum += raw_weight(shape, logits, ids[i]);
  return sum + 1e-20;
}

}  // namespace

template <typename T>
void router_weights(const RouterArgs& shape, ConstRows<T> logits, const std::int32_t* ids,
                    Rows<T> weights) {
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    const std::int32_t* chosen = ids + t * shape.top_k;
    const double sum = shape.renormalize ? raw_sum(shape, logits.row(t), chosen) : 1.0;
    for (std::int64_t i = 0; i < shape.top_k; ++i) {
      weights.row(t)[i] =
          static_cast<T>(shape.scaling * raw_weight(shape, logits.row(t), chosen[i]) / sum);
    }
  }
}

template <typename T>
void router_weights_backward(const RouterArgs& shape, ConstRows<T> logits, const std::int32_t* ids,
                             ConstRows<T> dweights, Rows<T> dlogits) {
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    const std::int32_t* chosen = ids + t * shape.top_k;
    double sum = 1, mean = 0;
    if (shape.renormalize) {
      sum = raw_sum(shape, logits.row(t), chosen);
      for (std::int64_t i = 0; i < shape.top_k; ++i) {
        mean += dweights.row(t)[i] * raw_weight(shape, logits.row(t), chosen[i]) / sum;
      }
    }
    for (std::int64_t i = 0; i < shape.top_k; ++i) {
      const double score = sigmoid<double>(logits.row(t)[chosen[i]]);
      const double draw = shape.scaling * (dweights.row(t)[i] - mean) / sum;
      dlogits.row(t)[chosen[i]] += static_cast<T>(draw * score * (1 - score));
    }
  }
}

#define INSTANTIATE(T)                                                                         \
  template void router_weights(const RouterArgs&, ConstRows<T>, const std::int32_t*, Rows<T>); \
  template void router_weights_backward(const RouterArgs&, ConstRows<T>, const std::int32_t*,  \
                                        ConstRows<T>, Rows<T>);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tandem::train
