// Writing safetensors files, tensor after tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"

namespace tandem {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;  // not kMxfp4
  std::vector<std::int64_t> shape;
};

// Writes the header at once and then takes the bytes in pieces of any size, so that a file may be
// larger than memory. Tensors stand in the order given; put wide dtypes first to keep them aligned.
// Move-only, one thread. The file is complete only after finish(); before, it fails to open as
// safetensors.
class SafetensorsWriter {
 public:
  static Result<SafetensorsWriter> create(const std::filesystem::path& path,
                                          std::span<const TensorInfo> tensors);

  // The next bytes, little-endian and row-major; the caller keeps to the order of `tensors`.
  Result<void> append(std::span<const std::byte> bytes);
  // Programmer error if the bytes appended are not as many as the tensors hold.
  Result<void> finish();

 private:
  SafetensorsWriter() = default;
  std::filesystem::path path_;
  std::ofstream file_;
  std::uint64_t remaining_bytes_ = 0;
};

// A small file at once: bytes stay owned by the caller.
struct TensorToWrite {
  TensorInfo info;
  std::span<const std::byte> bytes;
};
Result<void> write_safetensors(const std::filesystem::path& path,
                               std::span<const TensorToWrite> tensors);

}  // namespace tandem
