#include <algorithm>

#include "kernels/cuda/device_math.cuh"
#include "kernels/cuda/kda.h"
#include "kernels/cuda/kda_step.cuh"
#include "kernels/cuda/launch.h"
#include "tensor/cuda/status.h"

namespace tandem::cuda {
namespace {

constexpr int kDim = kKdaHeadDim;

// A head's token after convolution and gates; q and k are not normalised yet.
struct HeadToken {
  float q[kDim], k[kDim], v[kDim], decay[kDim];  // decay = exp(g)
  float squares[8];                              // a warp's share of sum(q^2), then of sum(k^2)
};

struct DecodeShared {
  StateRing ring;
  HeadToken token[2];  // a fast warp may fill the next one while a slow one reads this
  float4 predicted[8][32];
  float4 read[8][32];
};

__device__ float convolve(const KdaDecodeArgs& args, int request, std::int64_t channel) {
  const std::int64_t channels = 3 * args.heads * kDim;
  BF16* window = args.windows[request] + channel;
  const BF16 oldest = window[0], middle = window[channels], newest = window[2 * channels];
  const BF16 x = args.qkv[request * args.qkv_stride + channel];
  const float* weight = args.conv_weight + channel;
  float sum = weight[0] * widen(oldest);
  sum = fmaf(weight[channels], widen(middle), sum);
  sum = fmaf(weight[2 * channels], widen(newest), sum);
  sum = fmaf(weight[3 * channels], widen(x), sum);
  window[0] = middle;
  window[channels] = newest;
  window[2 * channels] = x;
  return sum * sigmoid(sum);
}

__device__ float decay_factor(const KdaDecodeArgs& args, int request, int head, int i) {
  const std::int64_t channel = static_cast<std::int64_t>(head) * kDim + i;
  const float u = widen(args.decay[request * args.decay_stride + channel]) + args.dt_bias[channel];
  const float rate = args.head_rate[head];
  return expf(args.lower_bound < 0 ? args.lower_bound * sigmoid(rate * u) : -rate * softplus(u));
}

// Threads 0..127 make q and v, the others k and the decay.
__device__ void make_token(const KdaDecodeArgs& args, int request, int head, HeadToken& token) {
  const int i = threadIdx.x % kDim;
  const std::int64_t inner = args.heads * kDim,
                     channel = static_cast<std::int64_t>(head) * kDim + i;
  float square;
  if (threadIdx.x < kDim) {
    const float q = convolve(args, request, channel);
    token.v[i] = convolve(args, request, 2 * inner + channel);
    token.q[i] = q;
    square = q * q;
  } else {
    const float k = convolve(args, request, inner + channel);
    token.decay[i] = decay_factor(args, request, head, i);
    token.k[i] = k;
    square = k * k;
  }
  square = warp_sum(square);
  if (threadIdx.x % 32 == 0) token.squares[threadIdx.x / 32] = square;
}

__device__ float inverse_length(const float* squares) {
  return rsqrtf(squares[0] + squares[1] + squares[2] + squares[3] + 1e-6f);
}

__device__ float dot(const float* a, const float* b) {
  float sum = 0;
  for (int i = threadIdx.x % 32; i < kDim; i += 32) sum = fmaf(a[i], b[i], sum);
  return warp_sum(sum);
}

// Four neighbouring columns a lane, one warp a head.
__device__ void write_output(const KdaDecodeArgs& args, int request, int head, float4 o) {
  const int column = threadIdx.x % 32 * 4;
  const std::int64_t channel = static_cast<std::int64_t>(head) * kDim + column;
  const float square = warp_sum(o.x * o.x + o.y * o.y + o.z * o.z + o.w * o.w);
  const float scale = rsqrtf(square / kDim + args.eps);
  const BF16* gate = args.gate + request * args.gate_stride + channel;
  const float values[4] = {o.x, o.y, o.z, o.w};
  BF16* out = args.out + request * args.heads * kDim + channel;
  for (int c = 0; c < 4; ++c) {
    out[c] = narrow(values[c] * scale * args.norm_weight[column + c] * sigmoid(widen(gate[c])));
  }
}

struct DecodeWork {
  const KdaDecodeArgs& args;
  DecodeShared& shared;

  __device__ int items() const { return static_cast<int>(args.batch * args.heads); }
  __device__ float* state(int item) const {
    return args.states[item / args.heads] + item % args.heads * kStateFloats;
  }

  template <typename Wait>
  __device__ void compute(int item, int turn, float* stored, Wait wait) {
    const int request = item / static_cast<int>(args.heads);
    const int head = item % static_cast<int>(args.heads);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    HeadToken& token = shared.token[turn & 1];
    const float beta = sigmoid(widen(args.beta[request * args.beta_stride + head]));
    make_token(args, request, head, token);
    compute_barrier();
    const float q_scale = inverse_length(token.squares) * rsqrtf(static_cast<float>(kDim));
    const float k_scale = inverse_length(token.squares + 4);
    const float overlap = dot(token.q, token.k) * q_scale * k_scale;
    wait();
    HeadState state;
    state.read(stored);
    float4 predicted = {0, 0, 0, 0}, read = {0, 0, 0, 0};
#pragma unroll
    for (int r = 0; r < kRowsPerWarp; ++r) {
      const int i = warp * kRowsPerWarp + r;
      const float decay = token.decay[i];
      float4& row = state.row[r];
      row = {row.x * decay, row.y * decay, row.z * decay, row.w * decay};
      add_scaled(predicted, row, token.k[i]);
      add_scaled(read, row, token.q[i]);
    }
    shared.predicted[warp][lane] = predicted;
    shared.read[warp][lane] = read;
    compute_barrier();
    predicted = sum_of_warps(shared.predicted);
    const float* v = token.v + 4 * lane;
    const float4 error = {
        beta * (v[0] - k_scale * predicted.x), beta * (v[1] - k_scale * predicted.y),
        beta * (v[2] - k_scale * predicted.z), beta * (v[3] - k_scale * predicted.w)};
#pragma unroll
    for (int r = 0; r < kRowsPerWarp; ++r) {
      add_scaled(state.row[r], error, k_scale * token.k[warp * kRowsPerWarp + r]);
    }
    state.write(stored);
    if (warp != 0) return;
    // The read of the new state is that of the decayed one plus what the token added to it.
    read = sum_of_warps(shared.read);
    float4 o = {read.x * q_scale, read.y * q_scale, read.z * q_scale, read.w * q_scale};
    add_scaled(o, error, overlap);
    write_output(args, request, head, o);
  }
};

__global__ void __launch_bounds__(kRingThreads, 1)
    decode_kernel(const __grid_constant__ KdaDecodeArgs args) {
  extern __shared__ __align__(128) unsigned char memory[];
  DecodeShared& shared = *reinterpret_cast<DecodeShared*>(memory);
  DecodeWork work{args, shared};
  walk_states(shared.ring, work);
}

}  // namespace

Result<void> kda_decode(const KdaDecodeArgs& args, CudaStreamHandle stream) {
  if (args.batch == 0) return {};
  TRY(allow_shared_memory(reinterpret_cast<const void*>(decode_kernel), sizeof(DecodeShared)));
  const int multiprocessors = TRY(multiprocessor_count());
  const auto blocks =
      static_cast<unsigned>(std::min<std::int64_t>(args.batch * args.heads, multiprocessors));
  decode_kernel<<<blocks, kRingThreads, sizeof(DecodeShared), stream>>>(args);
  return cuda_launched("kda_decode");
}

}  // namespace tandem::cuda
