#include <algorithm>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/kda_recurrent.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/kda_tokens-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {

void kda_recurrent(const KdaArgs& args, ThreadTeam& team) {
  for_heads(args, team, [&](const KdaSequence& sequence, std::int64_t head) HWY_ATTR {
    static thread_local Scratch scratch;
    float* buffer = scratch.floats(3 * kRecurrentTokens * whole_vectors(args.head_dim));
    float* state = sequence.state + head * args.head_dim * args.head_dim;
    recurrent_head(args, head, sequence.first_row, sequence.rows, state, buffer);
  });
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu {

HWY_EXPORT(kda_recurrent);

void kda_recurrent(const KdaArgs& args, ThreadTeam& team) noexcept {
  HWY_DYNAMIC_DISPATCH(kda_recurrent)(args, team);
}

}  // namespace tandem::cpu
#endif  // HWY_ONCE
