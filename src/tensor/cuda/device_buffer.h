// Memory on the current device, and page-locked memory of the host to copy from and to it.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/status.h"
#include "tensor/cuda/stream.h"

namespace tandem {

namespace detail {
void free_device(std::byte* memory);
void free_pinned(std::byte* memory);
}  // namespace detail

// Owns `size` bytes of device memory, aligned to 256; contents undefined. kResourceExhausted if the
// device is full.
class DeviceBuffer {
 public:
  static Result<DeviceBuffer> create(std::size_t size);
  std::byte* data() const { return owner_.get(); }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data());
  }
  std::size_t size() const { return size_; }

 private:
  detail::CudaOwner<std::byte*, detail::free_device> owner_;
  std::size_t size_ = 0;
};

// Owns `size` bytes of page-locked host memory: only from there is a copy asynchronous.
class PinnedBuffer {
 public:
  static Result<PinnedBuffer> create(std::size_t size);
  std::span<std::byte> bytes() const { return {owner_.get(), size_}; }

 private:
  detail::CudaOwner<std::byte*, detail::free_pinned> owner_;
  std::size_t size_ = 0;
};

// Put on the stream. From and to pageable memory the call itself may block; the host's memory must
// live until the stream has passed it.
Result<void> copy_to_device(const CudaStream& stream, void* device,
                            std::span<const std::byte> host);
Result<void> copy_to_host(const CudaStream& stream, std::span<std::byte> host, const void* device);
// Every byte becomes `value`.
Result<void> fill_device(const CudaStream& stream, void* device, std::byte value, std::size_t size);

}  // namespace tandem
