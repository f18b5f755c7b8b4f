#include <cuda_runtime.h>

#include "tensor/cuda/device_buffer.h"
#include "tensor/cuda/status.h"

namespace tandem {

namespace detail {
void free_device(std::byte* memory) { cudaFree(memory); }
void free_pinned(std::byte* memory) { cudaFreeHost(memory); }
}  // namespace detail

Result<DeviceBuffer> DeviceBuffer::create(std::size_t size) {
  DeviceBuffer out;
  if (size == 0) return out;
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, size);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return fail(StatusCode::kResourceExhausted, "the device has no {} bytes left", size);
  }
  TRY(cuda_status(error, "allocating device memory"));
  out.owner_ = detail::CudaOwner<std::byte*, detail::free_device>(static_cast<std::byte*>(memory));
  out.size_ = size;
  return out;
}

Result<PinnedBuffer> PinnedBuffer::create(std::size_t size) {
  PinnedBuffer out;
  if (size == 0) return out;
  void* memory = nullptr;
  TRY(cuda_status(cudaMallocHost(&memory, size), "allocating page-locked memory"));
  out.owner_ = detail::CudaOwner<std::byte*, detail::free_pinned>(static_cast<std::byte*>(memory));
  out.size_ = size;
  return out;
}

Result<void> copy_to_device(const CudaStream& stream, void* device,
                            std::span<const std::byte> host) {
  return cuda_status(
      cudaMemcpyAsync(device, host.data(), host.size(), cudaMemcpyHostToDevice, stream.get()),
      "copying to the device");
}

Result<void> copy_to_host(const CudaStream& stream, std::span<std::byte> host, const void* device) {
  return cuda_status(
      cudaMemcpyAsync(host.data(), device, host.size(), cudaMemcpyDeviceToHost, stream.get()),
      "copying to the host");
}

Result<void> fill_device(const CudaStream& stream, void* device, std::byte value,
                         std::size_t size) {
  return cuda_status(cudaMemsetAsync(device, static_cast<int>(value), size, stream.get()),
                     "filling memory");
}

}  // namespace tandem
