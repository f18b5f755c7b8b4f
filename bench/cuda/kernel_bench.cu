// Times the CUDA kernels at Kimi K3's dimensions inside CUDA graphs, beside the copy bandwidth of
// the same device in the same run. Prints a table, and JSON lines with --json. Inputs are random
// bits of plausible size; launches rotate over sets of data that together exceed the L2.
#include <cuda_runtime.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include "kernels/cuda/decode_step.h"
#include "kernels/cuda/kda.h"
#include "tensor/cuda/device_buffer.h"

namespace tandem {
namespace {

template <typename T>
T need(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "{}\n", result.error().message);
    std::exit(1);
  }
  return *std::move(result);
}
void need(Result<void> result) {
  if (result) return;
  fmt::print(stderr, "{}\n", result.error().message);
  std::exit(1);
}

// Numbers in (-1, 1) from a counter.
__device__ float value_at(std::size_t i) {
  std::uint32_t x =
      static_cast<std::uint32_t>(i) * 2654435761u ^ static_cast<std::uint32_t>(i >> 32);
  x = (x ^ (x >> 15)) * 2246822519u;
  x = (x ^ (x >> 13)) * 3266489917u;
  return static_cast<float>(static_cast<std::int32_t>(x ^ (x >> 16))) * 0x1p-31f;
}
__global__ void fill(float* out, std::size_t size) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x)
    out[i] = value_at(i);
}
__global__ void fill(BF16* out, std::size_t size) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x)
    out[i] = {static_cast<std::uint16_t>(__float_as_uint(value_at(i)) >> 16)};
}
__global__ void fill(cuda::KdaRecord* out, std::size_t size) {
  for (std::size_t r = blockIdx.x; r < size; r += gridDim.x) {
    const int i = threadIdx.x;
    if (i >= 128) continue;
    const std::uint32_t bits = __float_as_uint(value_at(r * 128 + i) * 0.15f);
    out[r].key[i] = out[r].value[i] = {static_cast<std::uint16_t>(bits >> 16)};
    out[r].log_decay[i] = -0.1f;
    out[r].beta = 0.5f;
  }
}

template <typename T>
class Random {
 public:
  explicit Random(std::size_t size) : buffer_(need(DeviceBuffer::create(size * sizeof(T)))) {
    fill<<<2048, 256>>>(buffer_.as<T>(), size);
    cudaDeviceSynchronize();
  }
  T* at(std::size_t i) const { return buffer_.as<T>() + i; }

 private:
  DeviceBuffer buffer_;
};

template <typename T>
DeviceBuffer upload(const std::vector<T>& values) {
  DeviceBuffer buffer = need(DeviceBuffer::create(values.size() * sizeof(T)));
  cudaMemcpy(buffer.data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
  return buffer;
}

class Bench {
 public:
  explicit Bench(bool json) : json_(json) {}

  // `launch(i)` puts launch number i on the stream. `bytes` a launch; percent is of the copy rate.
  double run(std::string_view name, double bytes, int launches,
             const std::function<Result<void>(int, CudaStreamHandle)>& launch) {
    const CudaGraph graph =
        need(CudaGraph::capture(stream_, [&](const CudaStream& stream) -> Result<void> {
          for (int i = 0; i < launches; ++i) TRY(launch(i, stream.get()));
          return {};
        }));
    const CudaEvent start = need(CudaEvent::create()), stop = need(CudaEvent::create());
    std::vector<double> times;
    for (int i = 0; i < 3 + 15; ++i) {
      need(start.record(stream_));
      need(graph.replay(stream_));
      need(stop.record(stream_));
      need(stream_.wait());
      if (i >= 3) times.push_back(need(stop.milliseconds_since(start)) * 1000.0 / launches);
    }
    std::sort(times.begin(), times.end());
    const double us = times[times.size() / 2], rate = bytes / us / 1e3;
    if (copy_ == 0) copy_ = rate;
    fmt::print("{:34} {:10.2f} us {:10.1f} MB {:8.0f} GB/s {:6.1f} %\n", name, us, bytes / 1e6,
               rate, 100 * rate / copy_);
    if (json_) {
      fmt::print(
          "{{\"kernel\":\"{}\",\"us\":{:.3f},\"bytes\":{:.0f},\"gb_s\":{:.1f},\"of_copy\":{:.4f}}}"
          "\n",
          name, us, bytes, rate, rate / copy_);
    }
    return us;
  }

 private:
  bool json_;
  double copy_ = 0;
  CudaStream stream_ = need(CudaStream::create());
};

constexpr std::int64_t kHeads = 96, kInner = kHeads * 128, kHidden = 7168;

// By multiprocessors: a memcpy node of a graph may go to a copy engine, which is slower.
__global__ void copy_kernel(const uint4* from, uint4* to) {
  const std::size_t first = std::size_t{blockIdx.x} * 4 * blockDim.x + threadIdx.x;
  uint4 held[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) held[i] = __ldcs(from + first + i * blockDim.x);
#pragma unroll
  for (int i = 0; i < 4; ++i) __stcs(to + first + i * blockDim.x, held[i]);
}

void copy(Bench& bench) {
  const std::size_t size = std::size_t{2} << 30;  // a multiple of a block's 16 KiB
  const Random<float> from(size / 4), to(size / 4);
  bench.run("device copy, 2 GiB", 2.0 * static_cast<double>(size), 5, [&](int, CudaStreamHandle s) {
    copy_kernel<<<size / 16384, 256, 0, s>>>(reinterpret_cast<const uint4*>(from.at(0)),
                                             reinterpret_cast<uint4*>(to.at(0)));
    return Result<void>();
  });
}

void decode(Bench& bench, std::int64_t batch) {
  const std::int64_t sets = std::max<std::int64_t>(2, 48 / batch);
  const std::size_t state = kHeads * 128 * 128, window = 9 * kInner;
  const Random<float> states(sets * batch * state), weights(12 * kInner + kInner + kHeads + 128);
  const Random<BF16> windows(sets * batch * window), rows(batch * (5 * kInner + kHeads));
  const DeviceBuffer out = need(DeviceBuffer::create(batch * kInner * sizeof(BF16)));
  std::vector<DeviceBuffer> tables;
  for (std::int64_t s = 0; s < sets; ++s) {
    std::vector<float*> state_at;
    std::vector<BF16*> window_at;
    for (std::int64_t r = s * batch; r < (s + 1) * batch; ++r) {
      state_at.push_back(states.at(r * state));
      window_at.push_back(windows.at(r * window));
    }
    tables.push_back(upload(state_at));
    tables.push_back(upload(window_at));
  }
  const double bytes =
      static_cast<double>(batch) * (2.0 * state * 4 + 2.0 * window * 2 + 6.0 * kInner * 2) +
      13.0 * kInner * 4;
  bench.run(
      fmt::format("kda_decode, batch {}", batch), bytes, batch < 16 ? 96 : 16,
      [&](int i, CudaStreamHandle stream) {
        const std::int64_t s = i % sets, stride = 5 * kInner + kHeads;
        return cuda::kda_decode(
            {batch, kHeads, rows.at(0), stride, rows.at(3 * kInner), stride, rows.at(4 * kInner),
             stride, rows.at(5 * kInner), stride, weights.at(0), weights.at(12 * kInner),
             weights.at(13 * kInner), weights.at(13 * kInner + kHeads), -5, 1e-5f,
             tables[2 * s].as<float*>(), tables[2 * s + 1].as<BF16*>(), out.as<BF16>()},
            stream);
      });
}

void fold(Bench& bench) {
  const std::int64_t batch = 16, layers = 69, window = 8;
  const std::size_t heads = layers * kHeads;
  const Random<float> states(batch * heads * 128 * 128);
  const Random<cuda::KdaRecord> records(batch * heads * window);
  std::vector<float*> state_at;
  std::vector<cuda::KdaRecord*> record_at;
  for (std::int64_t r = 0; r < batch; ++r) {
    state_at.push_back(states.at(r * heads * 128 * 128));
    record_at.push_back(records.at(r * heads * window));
  }
  const DeviceBuffer d_states = upload(state_at), d_records = upload(record_at);
  for (const int count : {3, 8}) {
    const DeviceBuffer counts = upload(std::vector<std::int32_t>(batch, count));
    const double bytes = static_cast<double>(batch * heads) * (131072.0 + 1028.0 * count);
    bench.run(fmt::format("kda_fold, 69 layers, batch 16, {} kept", count), bytes, 2,
              [&](int, CudaStreamHandle stream) {
                return cuda::kda_fold(
                    {batch, layers, kHeads, window, counts.as<std::int32_t>(),
                     d_records.as<const cuda::KdaRecord*>(), d_states.as<float*>()},
                    stream);
              });
  }
}

void linear(Bench& bench, std::int64_t outputs, std::int64_t inputs) {
  const std::size_t size = static_cast<std::size_t>(outputs * inputs);
  const std::size_t sets = std::max<std::size_t>(1, (std::size_t{200} << 20) / (size * 2));
  const Random<BF16> w(sets * size), x(8 * inputs);
  const Random<float> y(8 * outputs);
  for (const std::int64_t rows : {1, 2, 4, 8}) {
    bench.run(fmt::format("skinny_linear {}x{}, {} rows", outputs, inputs, rows), 2.0 * size, 16,
              [&](int i, CudaStreamHandle stream) {
                return cuda::skinny_linear(
                    {rows, inputs, outputs, x.at(0), w.at(i % sets * size), y.at(0)}, stream);
              });
  }
}

void small_steps(Bench& bench) {
  const Random<float> logits(128 * 896), bias(896), weights(kHidden * 2);
  const Random<BF16> streams(128 * 10 * kHidden);
  const DeviceBuffer ids = need(DeviceBuffer::create(1 << 16)),
                     out = need(DeviceBuffer::create(1 << 16));
  for (const std::int64_t rows : {1, 8, 128}) {
    bench.run(fmt::format("route 16 of 896, {} rows", rows), 3584.0 * rows, 64,
              [&](int, CudaStreamHandle stream) {
                return cuda::route({rows, 896, 16, logits.at(0), bias.at(0), 1,
                                    ids.as<std::int32_t>(), out.as<float>()},
                                   stream);
              });
  }
  for (const std::int64_t rows : {1, 8, 128}) {
    cuda::MixNormArgs args{rows,
                           kHidden,
                           9,
                           {},
                           weights.at(0),
                           1e-5f,
                           weights.at(kHidden),
                           1e-5f,
                           streams.at(9 * rows * kHidden)};
    for (int j = 0; j < 9; ++j) args.stream[j] = streams.at(j * rows * kHidden);
    bench.run(fmt::format("mix_norm, 9 streams, {} rows", rows), rows * 10 * kHidden * 2.0, 64,
              [&](int, CudaStreamHandle stream) { return cuda::mix_norm(args, stream); });
  }
}

int main_(bool json) {
  Bench bench(json);
  copy(bench);
  for (const std::int64_t batch : {1, 8, 16, 64, 128}) decode(bench, batch);
  fold(bench);
  linear(bench, 49152 + 128 + 96, kHidden);
  linear(bench, kHidden, 12288);
  linear(bench, 163840, kHidden);
  small_steps(bench);
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  return tandem::main_(argc > 1 && std::string_view(argv[1]) == "--json");
}
