// Whatever header is accepted describes tensors that lie inside the data, side by side, and whose
// sizes agree with their shapes. The first byte chooses how many bytes of data follow the header.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/safetensors.h"
#include "model/shard_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  if (size == 0) return 0;
  const std::uint64_t data_bytes = data[0];
  const std::string_view header(reinterpret_cast<const char*>(data) + 1, size - 1);

  const auto tensors = parse_safetensors_header(header, data_bytes, "file");
  if (tensors) {
    std::uint64_t total = 0;
    for (const auto& [name, entry] : *tensors) {
      CHECK(entry.begin <= entry.end && entry.end <= data_bytes, "{}..{} of {}", entry.begin,
            entry.end, data_bytes);
      const auto elements = static_cast<std::uint64_t>(entry.elements());
      CHECK(elements * element_bytes(entry.dtype) == entry.end - entry.begin, "{} elements of {}",
            elements, to_string(entry.dtype));
      total += entry.end - entry.begin;
    }
    CHECK(total == data_bytes, "{} of {} bytes", total, data_bytes);
  } else {
    CHECK(tensors.error().message.find('\n') == std::string::npos, "a message of several lines");
  }

  // The index of the shards is the other file that stands before any tensor is read.
  const auto index = parse_shard_index(header, "index");
  if (index) {
    for (const auto& [name, file] : index->tensors) {
      CHECK(file < index->files.size(), "file {} of {}", file, index->files.size());
    }
    for (const std::string& file : index->files) {
      CHECK(file.find('/') == std::string::npos && file != "..", "a path outside the folder");
    }
  }
  return 0;
}
