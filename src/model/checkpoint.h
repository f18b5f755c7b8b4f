// Tensors of a checkpoint folder by name, memory-mapped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/safetensors.h"

namespace tandem {

// All shards of a folder: `model.safetensors.index.json` and the files that it names, or one
// `model.safetensors`. Opening checks that every tensor of the index stands in its file, and that
// no two files hold the same name. Move-only; views into it die with it. Thread-safe for readers.
class Checkpoint {
 public:
  static Result<Checkpoint> open(const std::filesystem::path& folder);

  // nullptr if there is none.
  const TensorEntry* find(std::string_view name) const;
  // The bytes of a tensor, row-major little-endian.
  std::span<const std::byte> bytes(const TensorEntry& entry) const;
  // The file that holds a tensor, for messages.
  const std::filesystem::path& file_of(const TensorEntry& entry) const;
  // All names, sorted.
  const std::map<std::string, TensorEntry, std::less<>>& tensors() const { return tensors_; }
  std::int64_t total_bytes() const;

 private:
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, TensorEntry, std::less<>> tensors_;
};

}  // namespace tandem
