#include <algorithm>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/residual_mix.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {

constexpr std::int64_t kMaxRows = kMaxBankRows + 1;

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

void residual_mix(const ResidualMixArgs& args, ThreadTeam& team) {
  const double ns_per_element = kNsPerElement * static_cast<double>(args.bank_rows + 1);
  for_rows(team, args.stream.rows, args.stream.columns, ns_per_element,
           [&](std::int64_t t) HWY_ATTR { mix_row(args, t); });
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu {

HWY_EXPORT(residual_mix);

void residual_mix(const ResidualMixArgs& args, ThreadTeam& team) noexcept {
  HWY_DYNAMIC_DISPATCH(residual_mix)(args, team);
}

}  // namespace tandem::cpu
#endif  // HWY_ONCE
