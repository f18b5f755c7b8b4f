#include "kernels/cpu/rows.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {

void router_scores(const float* logits, const float* bias, std::int64_t experts, float* score,
                   float* choice) {
  map(
      experts, score, [](Floats logit) HWY_ATTR { return sigmoid(logit); }, logits);
  map(
      experts, choice, [](Floats s, Floats b) HWY_ATTR { return hn::Add(s, b); }, score, bias);
}

void activate_rows(const ActivationSpec& spec, Activations gate, ConstActivations up) {
  for (std::int64_t r = 0; r < gate.rows; ++r) {
    activate_row(spec, gate.row(r), up.row(r), gate.columns, gate.row(r));
  }
}

void combine_rows(ConstActivations rows, const std::int32_t* places, const float* weights,
                  std::int64_t count, float* y) {
  for (std::int64_t c = 0; c < rows.columns; c += kLanes) {
    const std::int64_t part = std::min(kLanes, rows.columns - c);
    Floats sum = hn::Zero(FloatTag());
    for (std::int64_t i = 0; i < count; ++i) {
      const Floats weight = hn::Set(FloatTag(), weights[i]);
      sum = hn::MulAdd(weight, load_up_to(rows.row(places[i]) + c, part), sum);
    }
    store_up_to(sum, y + c, part);
  }
}

template <class T>
HWY_INLINE void store_latent(const float* x, std::int64_t width, std::int64_t normed,
                             const float* weight, float eps, T* row) {
  scale_row(x, weight, inverse_rms(x, normed, eps), normed, row);
  map(
      width - normed, row + normed, [](Floats v) HWY_ATTR { return v; }, x + normed);
}

void store_latent_row(const float* x, std::int64_t width, std::int64_t normed, const float* weight,
                      float eps, DType dtype, std::byte* row) {
  if (dtype == DType::kBF16) {
    store_latent(x, width, normed, weight, eps, reinterpret_cast<BF16*>(row));
  } else {
    store_latent(x, width, normed, weight, eps, reinterpret_cast<float*>(row));
  }
}

HWY_INLINE void scale_in_place(float* x, std::int64_t size, float factor) {
  const Floats f = hn::Set(FloatTag(), factor);
  map(
      size, x, [f](Floats v) HWY_ATTR { return hn::Mul(v, f); }, x);
}

HWY_INLINE float largest_of(const float* x, std::int64_t size) {
  const FloatTag d;
  float largest = -std::numeric_limits<float>::infinity();
  std::int64_t i = 0;
  if (size >= kLanes) {
    Floats all = load(x);
    for (i = kLanes; i + kLanes <= size; i += kLanes) all = hn::Max(all, load(x + i));
    largest = hn::GetLane(hn::MaxOfLanes(d, all));
  }
  for (; i < size; ++i) largest = std::max(largest, x[i]);
  return largest;
}

HWY_INLINE float exp(float x) { return hn::GetLane(exp(hn::Set(FloatTag(), x))); }

void absorb_scores(const RunningSoftmax& softmax) {
  const std::int64_t keys = softmax.scores.columns;
  for (std::int64_t r = 0; r < softmax.scores.rows; ++r) {
    float* score = softmax.scores.row(r);
    const float largest = std::max(softmax.largest[r], largest_of(score, keys));
    if (largest != softmax.largest[r]) {
      const float shrink = exp(softmax.largest[r] - largest);
      softmax.sum[r] *= shrink;
      scale_in_place(softmax.context.row(r), softmax.context.columns, shrink);
      softmax.largest[r] = largest;
    }
    const Floats shift = hn::Set(FloatTag(), largest);
    map(
        keys, score, [shift](Floats s) HWY_ATTR { return exp(hn::Sub(s, shift)); }, score);
    softmax.sum[r] += accumulate(
        keys, [](Floats sum, Floats p) HWY_ATTR { return hn::Add(sum, p); }, score);
  }
}

void finish_context(const RunningSoftmax& softmax) {
  for (std::int64_t r = 0; r < softmax.context.rows; ++r) {
    scale_in_place(softmax.context.row(r), softmax.context.columns, 1.0f / softmax.sum[r]);
  }
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu {

HWY_EXPORT(router_scores);
HWY_EXPORT(activate_rows);
HWY_EXPORT(combine_rows);
HWY_EXPORT(store_latent_row);
HWY_EXPORT(absorb_scores);
HWY_EXPORT(finish_context);

void router_scores(const float* logits, const float* bias, std::int64_t experts, float* score,
                   float* choice) noexcept {
  HWY_DYNAMIC_DISPATCH(router_scores)(logits, bias, experts, score, choice);
}

void activate_rows(const ActivationSpec& spec, Activations gate, ConstActivations up) noexcept {
  HWY_DYNAMIC_DISPATCH(activate_rows)(spec, gate, up);
}

void combine_rows(ConstActivations rows, const std::int32_t* places, const float* weights,
                  std::int64_t count, float* y) noexcept {
  HWY_DYNAMIC_DISPATCH(combine_rows)(rows, places, weights, count, y);
}

void store_latent_row(const float* x, std::int64_t width, std::int64_t normed, const float* weight,
                      float eps, DType dtype, std::byte* row) noexcept {
  HWY_DYNAMIC_DISPATCH(store_latent_row)(x, width, normed, weight, eps, dtype, row);
}

void absorb_scores(const RunningSoftmax& softmax) noexcept {
  HWY_DYNAMIC_DISPATCH(absorb_scores)(softmax);
}

void finish_context(const RunningSoftmax& softmax) noexcept {
  HWY_DYNAMIC_DISPATCH(finish_context)(softmax);
}

}  // namespace tandem::cpu
#endif  // HWY_ONCE
