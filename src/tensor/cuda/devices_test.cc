#include "tensor/cuda/devices.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(cuda_devices, a_gpu_machine_lists_its_devices_and_hopper_runs_this_build) {
  const auto devices = cuda_devices();
  ASSERT_TRUE(devices) << devices.error().message;
  ASSERT_FALSE(devices->empty());
  for (const auto& device : *devices) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_GT(device.multiprocessors, 0);
    EXPECT_GT(device.memory_bytes, 1 << 30);
    EXPECT_EQ(device.runs_this_build, device.compute_major == 9 && device.compute_minor == 0)
        << device.name << " has compute capability " << device.compute_major << "."
        << device.compute_minor;
  }
}

}  // namespace
}  // namespace tandem
