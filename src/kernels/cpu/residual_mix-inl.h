// One token's softmax over its residual streams.
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/norm-inl.h"
#include "kernels/ops/residual_mix.h"

#if defined(TANDEM_KERNELS_CPU_RESIDUAL_MIX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_RESIDUAL_MIX_INL_H_
#undef TANDEM_KERNELS_CPU_RESIDUAL_MIX_INL_H_
#else
#define TANDEM_KERNELS_CPU_RESIDUAL_MIX_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {

inline constexpr std::int64_t kMaxRows = kMaxBankRows + 1;

// softmax over `count` scores, in place; the sum runs in ascending order.
HWY_INLINE void softmax(float* score, std::int64_t count) {
  const FloatTag d;
  const Floats largest = hn::Set(d, *std::max_element(score, score + count));
  map(
      count, score, [largest](Floats s) HWY_ATTR { return exp(hn::Sub(s, largest)); }, score);
  float sum = 0;
  for (std::int64_t j = 0; j < count; ++j) sum += score[j];
  for (std::int64_t j = 0; j < count; ++j) score[j] /= sum;
}

HWY_INLINE void mix_row(const ResidualMixArgs& args, std::int64_t t) {
  const std::int64_t width = args.stream.columns;
  const float* rows[kMaxRows];
  for (std::int64_t j = 0; j < args.bank_rows; ++j) rows[j] = args.bank[j].row(t);
  rows[args.bank_rows] = args.stream.row(t);
  const std::int64_t count = args.bank_rows + 1;

  float weight[kMaxRows] = {};
  for (std::int64_t j = 0; j < count; ++j) {
    weight[j] = inverse_rms(rows[j], width, args.eps) * dot(rows[j], args.query, width);
  }
  softmax(weight, count);

  for (std::int64_t i = 0; i < width; i += kLanes) {
    const std::int64_t part = std::min(kLanes, width - i);
    Floats sum = hn::Zero(FloatTag());
    for (std::int64_t j = 0; j < count; ++j) {
      sum = hn::MulAdd(hn::Set(FloatTag(), weight[j]), load_up_to(rows[j] + i, part), sum);
    }
    store_up_to(sum, args.y.row(t) + i, part);
  }
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
