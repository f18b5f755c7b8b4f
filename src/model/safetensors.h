// The safetensors container: an 8-byte little-endian header length, a JSON header, then tensor
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"

namespace tandem {

struct TensorEntry {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // byte offsets into the data section
  std::uint64_t end = 0;
  std::size_t file = 0;  // index into Checkpoint's files

  std::int64_t elements() const;
};

using TensorTable = std::map<std::string, TensorEntry, std::less<>>;

// Parses and checks a header: JSON of the stated form, known dtypes, non-negative sizes, shape and
// offsets that agree, offsets inside `data_bytes`, no overlap, no hole. `source` names the file in
// messages. Never allocates more than the header justifies; safe on hostile input.
Result<TensorTable> parse_safetensors_header(std::string_view header, std::uint64_t data_bytes,
                                             std::string_view source);

// A file mapped read-only. Not copyable; views die with it.
class SafetensorsFile {
 public:
  static Result<std::unique_ptr<SafetensorsFile>> open(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const TensorTable& tensors() const { return tensors_; }
  std::span<const std::byte> bytes(const TensorEntry& entry) const;

 private:
  SafetensorsFile() = default;
  std::filesystem::path path_;
  const std::byte* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  std::size_t data_start_ = 0;
  TensorTable tensors_;
};

// One tensor to be written: bytes stay owned by the caller.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

Result<void> write_safetensors(const std::filesystem::path& path,
                               std::span<const TensorToWrite> tensors);

}  // namespace tandem
