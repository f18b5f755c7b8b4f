#include <cuda_runtime.h>

#include "tensor/cuda/devices.h"

namespace tandem {
namespace {

// Exists to be looked up: a device of another architecture has no image of it.
__global__ void probe() {}

bool has_image_of_probe() {
  cudaFuncAttributes attributes;
  const bool found = cudaFuncGetAttributes(&attributes, probe) == cudaSuccess;
  if (!found) cudaGetLastError();  // clears it, so that the next caller does not see it
  return found;
}

tl::unexpected<Status> failure(const char* what, cudaError_t error) {
  cudaGetLastError();
  return fail(StatusCode::kUnavailable, "CUDA: {}: {}", what, cudaGetErrorString(error));
}

}  // namespace

Result<std::vector<CudaDevice>> cuda_devices() {
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted == cudaErrorNoDevice || counted == cudaErrorInsufficientDriver) {
    cudaGetLastError();
    return std::vector<CudaDevice>();
  }
  if (counted != cudaSuccess) return failure("counting devices", counted);

  int current = 0;
  if (const auto error = cudaGetDevice(&current); error != cudaSuccess)
    return failure("reading the current device", error);
  std::vector<CudaDevice> devices;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    if (const auto error = cudaGetDeviceProperties(&properties, i); error != cudaSuccess) {
      return failure("reading a device's properties", error);
    }
    if (const auto error = cudaSetDevice(i); error != cudaSuccess)
      return failure("opening a device", error);
    devices.push_back({.name = properties.name,
                       .compute_major = properties.major,
                       .compute_minor = properties.minor,
                       .multiprocessors = properties.multiProcessorCount,
                       .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
                       .runs_this_build = has_image_of_probe()});
  }
  if (const auto error = cudaSetDevice(current); error != cudaSuccess)
    return failure("restoring the current device", error);
  return devices;
}

}  // namespace tandem
