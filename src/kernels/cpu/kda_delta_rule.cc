#include <algorithm>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/kda_delta_rule.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/kda_chunk-inl.h"

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

void kda_chunked(const KdaArgs& args, ThreadTeam& team) {
  for_heads(args, team, [&](const KdaSequence& sequence, std::int64_t head) HWY_ATTR {
    static thread_local Scratch scratch;
    float* buffer = scratch.floats(chunk_buffer_floats(whole_vectors(args.head_dim)));
    float* state = sequence.state + head * args.head_dim * args.head_dim;
    std::int64_t row = sequence.first_row;
    const std::int64_t end = row + sequence.rows;
    while (end - row >= kMinChunk) {
      const std::int64_t count = std::min(kChunk, end - row);
      run_chunk(args, head, row, count, state, buffer);
      row += count;
    }
    recurrent_head(args, head, row, end - row, state, buffer);
  });
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu {

HWY_EXPORT(kda_recurrent);
HWY_EXPORT(kda_chunked);

void kda_recurrent(const KdaArgs& args, ThreadTeam& team) noexcept {
  HWY_DYNAMIC_DISPATCH(kda_recurrent)(args, team);
}

void kda_chunked(const KdaArgs& args, ThreadTeam& team) noexcept {
  HWY_DYNAMIC_DISPATCH(kda_chunked)(args, team);
}

}  // namespace tandem::cpu
#endif  // HWY_ONCE
