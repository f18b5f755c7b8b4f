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
// `model.safetensors`. Opening checks that index and files list the same tensors, each in the same
// place and once, that no shard lies outside the folder, and that no other *.safetensors file
// stands in it (a sign of two downloads mixed). Move-only; views into it die with it. Thread-safe
// for readers.
class Checkpoint {
 public:
  static Result<Checkpoint> open(const std::filesystem::path& folder);

  // nullptr if there is none.
  const TensorEntry* find(std::string_view name) const;
  // The bytes of a tensor, row-major little-endian.
  std::span<const std::byte> bytes(const TensorEntry& entry) const;
  // The file that holds a tensor, for messages.
  const std::filesystem::path& file_of(const TensorEntry& entry) const;
  // The index, or the single file: what should have listed a tensor that is missing.
  const std::filesystem::path& listing() const { return listing_; }
  // All names, sorted.
  const TensorTable& tensors() const { return tensors_; }
  std::int64_t total_bytes() const;
  // Gives back the memory of pages that were read; they are read again when they are asked for.
  void release_pages() const;

 private:
  std::filesystem::path listing_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  TensorTable tensors_;
};

}  // namespace tandem
