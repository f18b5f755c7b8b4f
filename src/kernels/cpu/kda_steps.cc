// Short convolution and gates.
#include <algorithm>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/kda_steps.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {

// The inputs of one sequence, oldest first: what its window holds, then this step's rows. T is the
// window's type; x is read through it, so that a value is the same before and after it was stored.
template <class T>
struct ConvInputs {
  ConstActivations x;
  T* window;
  std::int64_t kept;  // rows of the window
  std::int64_t first_row;

  HWY_INLINE Floats at(std::int64_t i, std::int64_t channel, std::int64_t count) const {
    if (i < kept) return load_up_to(window + i * x.columns + channel, count);
    const Floats v = load_up_to(x.row(first_row + i - kept) + channel, count);
    if constexpr (std::is_same_v<T, BF16>) {
      return round_to_bf16(v);
    } else {
      return v;
    }
  }
};

// Channels [first, last) of one sequence, row by row; then their part of the window.
template <class T>
void convolve(const ShortConvArgs& args, const KdaSequence& sequence, std::int64_t first,
              std::int64_t last) {
  const std::int64_t channels = args.x.columns;
  const ConvInputs<T> inputs = {args.x, reinterpret_cast<T*>(sequence.window), args.width - 1,
                                sequence.first_row};
  for (std::int64_t r = 0; r < sequence.rows; ++r) {
    float* y = args.y.row(sequence.first_row + r);
    for (std::int64_t c = first; c < last; c += kLanes) {
      const std::int64_t count = std::min(kLanes, last - c);
      Floats sum = hn::Zero(FloatTag());
      for (std::int64_t j = 0; j < args.width; ++j) {
        const Floats weight = load_up_to(args.weight + j * channels + c, count);
        sum = hn::MulAdd(weight, inputs.at(r + j, c, count), sum);
      }
      store_up_to(silu(sum), y + c, count);
    }
  }
  // In ascending order: with fewer rows than the window keeps, a row moves down within it.
  for (std::int64_t i = 0; i < inputs.kept; ++i) {
    for (std::int64_t c = first; c < last; c += kLanes) {
      const std::int64_t count = std::min(kLanes, last - c);
      store_up_to(inputs.at(sequence.rows + i, c, count), inputs.window + i * channels + c, count);
    }
  }
}

// A task is a block of channels of a sequence.
void short_conv(const ShortConvArgs& args, ThreadTeam& team) {
  constexpr std::int64_t kBlock = 128;
  const std::int64_t blocks = (args.x.columns + kBlock - 1) / kBlock;
  const double mean_rows = static_cast<double>(args.x.rows) /
                           static_cast<double>(std::max<std::int64_t>(args.sequence_count, 1));
  const std::int64_t grain = grain_for(mean_rows * kBlock * 1.5 * kNsPerTranscendental);
  const auto body = [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t task = begin; task < end; ++task) {
      const KdaSequence& sequence = args.sequences[task / blocks];
      const std::int64_t first = task % blocks * kBlock;
      const std::int64_t last = std::min(first + kBlock, args.x.columns);
      if (args.window_dtype == DType::kBF16) {
        convolve<BF16>(args, sequence, first, last);
      } else {
        convolve<float>(args, sequence, first, last);
      }
    }
  };
  parallel(team, args.sequence_count * blocks, grain, body);
}

HWY_INLINE void gate_head(const KdaGatesArgs& args, std::int64_t head, float* decay) {
  const FloatTag d;
  const std::int64_t size = args.decay.columns / args.heads;
  const float* bias = args.dt_bias + head * size;
  const Floats rate = hn::Set(d, args.head_rate[head]);
  if (args.lower_bound) {
    const Floats bound = hn::Set(d, *args.lower_bound);
    const auto bounded = [=](Floats logit, Floats b) HWY_ATTR {
      return hn::Mul(bound, sigmoid(hn::Mul(rate, hn::Add(logit, b))));
    };
    map(size, decay, bounded, decay, bias);
  } else {
    const auto unbounded = [=](Floats logit, Floats b) HWY_ATTR {
      return hn::Neg(hn::Mul(rate, softplus(hn::Add(logit, b))));
    };
    map(size, decay, unbounded, decay, bias);
  }
}

void kda_gates(const KdaGatesArgs& args, ThreadTeam& team) {
  for_rows(team, args.decay.rows, args.decay.columns, 2 * kNsPerTranscendental,
           [&](std::int64_t t) HWY_ATTR {
             const std::int64_t size = args.decay.columns / args.heads;
             for (std::int64_t h = 0; h < args.heads; ++h) {
               gate_head(args, h, args.decay.row(t) + h * size);
             }
             float* beta = args.beta.row(t);
             map(
                 args.heads, beta, [](Floats b) HWY_ATTR { return sigmoid(b); }, beta);
           });
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu {

HWY_EXPORT(short_conv);
HWY_EXPORT(kda_gates);

void short_conv(const ShortConvArgs& args, ThreadTeam& team) noexcept {
  HWY_DYNAMIC_DISPATCH(short_conv)(args, team);
}

void kda_gates(const KdaGatesArgs& args, ThreadTeam& team) noexcept {
  HWY_DYNAMIC_DISPATCH(kda_gates)(args, team);
}

}  // namespace tandem::cpu
#endif  // HWY_ONCE
