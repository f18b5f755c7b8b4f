// What the tests of the device's kernels share: seeded inputs, copies, poisoned outputs.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "tensor/cuda/device_buffer.h"
#include "tensor/dtype.h"

namespace tandem::testing {

template <typename T>
T unwrap(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().message;
    std::abort();  // nothing after a failed device call means anything
  }
  return *std::move(result);
}

// An array on the device. Filled with 0xff bytes (NaN for bf16 and fp32) unless given values.
template <typename T>
class DeviceArray {
 public:
  DeviceArray(const CudaStream& stream, std::size_t size)
      : stream_(stream), size_(size), buffer_(unwrap(DeviceBuffer::create(size * sizeof(T)))) {
    EXPECT_TRUE(fill_device(stream_, buffer_.data(), std::byte{0xff}, size * sizeof(T)));
    EXPECT_TRUE(stream_.wait());
  }
  DeviceArray(const CudaStream& stream, const std::vector<T>& values)
      : DeviceArray(stream, values.size()) {
    EXPECT_TRUE(copy_to_device(stream_, buffer_.data(), std::as_bytes(std::span(values))));
    EXPECT_TRUE(stream_.wait());
  }
  T* data() const { return buffer_.template as<T>(); }
  std::vector<T> host() const {
    std::vector<T> values(size_);
    const auto copied =
        copy_to_host(stream_, std::as_writable_bytes(std::span(values)), buffer_.data());
    EXPECT_TRUE(copied);
    const auto waited = stream_.wait();
    EXPECT_TRUE(waited) << waited.error().message;
    return values;
  }

 private:
  const CudaStream& stream_;
  std::size_t size_;
  DeviceBuffer buffer_;
};

inline std::vector<float> normals(std::mt19937_64& random, std::int64_t size, double scale = 1,
                                  double mean = 0) {
  std::normal_distribution<double> normal(mean, scale);
  std::vector<float> values(static_cast<std::size_t>(size));
  for (float& value : values) value = static_cast<float>(normal(random));
  return values;
}

inline std::vector<BF16> to_bf16(const std::vector<float>& values) {
  std::vector<BF16> out;
  for (float value : values) out.push_back(tandem::to_bf16(value));
  return out;
}
inline std::vector<float> to_float(const std::vector<BF16>& values) {
  std::vector<float> out;
  for (BF16 value : values) out.push_back(tandem::to_float(value));
  return out;
}
inline std::vector<BF16> bf16_normals(std::mt19937_64& random, std::int64_t size,
                                      double scale = 1) {
  return to_bf16(normals(random, size, scale));
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// A fixed seed: a failure on a lent machine must repeat here.
class DeviceKernelTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kSeed = 20261201;
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, "seed 20261201"};
  std::mt19937_64 random_{kSeed};
  CudaStream stream_ = unwrap(CudaStream::create());
};

}  // namespace tandem::testing
