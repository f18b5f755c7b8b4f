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
#include <utility>
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

// Largest header that is read; the format's own limit.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

// Parses and checks a header: an object of unique tensor names, each with exactly dtype, shape (at
// most 8 sizes >= 0) and data_offsets, and optionally `__metadata__`, an object of strings, which
// is ignored. The tensors must tile the `data_bytes` bytes of the data section: a size that
// disagrees with shape and dtype, an offset past the end, an overlap, a hole and trailing bytes are
// errors, since each of them is how a damaged or half-written file looks. `source` names the file
// in messages. Never allocates more than the header justifies; safe on hostile input.
Result<TensorTable> parse_safetensors_header(std::string_view header, std::uint64_t data_bytes,
                                             std::string_view source);

// A file mapped read-only. Not copyable; views die with it. Thread-safe for readers.
// A file that another process cuts short while it is mapped faults on access, as with any mapping.
class SafetensorsFile {
 public:
  static Result<std::unique_ptr<SafetensorsFile>> open(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const TensorTable& tensors() const { return tensors_; }
  // Hands the table to a larger one; tensors() is empty afterwards.
  TensorTable release_tensors() { return std::exchange(tensors_, {}); }
  std::span<const std::byte> bytes(const TensorEntry& entry) const;
  // Checkpoint::release_pages.
  void release_pages() const;

 private:
  SafetensorsFile() = default;
  std::filesystem::path path_;
  const std::byte* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  std::size_t data_start_ = 0;
  TensorTable tensors_;
};

}  // namespace tandem
