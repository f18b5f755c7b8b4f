#include "model/checkpoint.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "model/input.h"
#include "model/shard_index.h"

namespace tandem {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{1} << 30;  // K3's has about 60 MB

// Refuses a *.safetensors file that the listing does not name.
Result<void> check_no_stray_file(const std::filesystem::path& folder,
                                 const std::vector<std::string>& named, std::string_view listing) {
  std::error_code error;
  std::set<std::string> found;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".safetensors") found.insert(it->path().filename().string());
  }
  if (error) return invalid("{}: cannot be listed: {}", folder.string(), error.message());
  for (const std::string& name : found) {
    if (std::find(named.begin(), named.end(), name) == named.end()) {
      return invalid("{}: {} does not name this file; expected no *.safetensors but those it names",
                     (folder / name).string(), listing);
    }
  }
  return {};
}

// The first tensor of the index that stands in shard `file`.
std::string_view first_tensor_in(const ShardIndex& index, std::size_t file) {
  for (const auto& [name, number] : index.tensors) {
    if (number == file) return name;
  }
  return {};
}

// Every tensor of the index stands in the file it names, and the files hold nothing else.
Result<void> check_placement(const ShardIndex& index, const TensorTable& tensors,
                             const std::filesystem::path& folder, std::string_view listing) {
  for (const auto& [name, number] : index.tensors) {
    const auto found = tensors.find(name);
    if (found == tensors.end() || found->second.file != number) {
      return invalid("{}: weight_map puts tensor {} into {}, which does not hold it", listing,
                     in_quotes(name), in_quotes(index.files[number]));
    }
  }
  for (const auto& [name, entry] : tensors) {
    if (!index.tensors.contains(name)) {
      return invalid("{}: tensor {} is not listed in {}",
                     (folder / index.files[entry.file]).string(), in_quotes(name), kIndexName);
    }
  }
  return {};
}

Result<ShardIndex> read_index(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kIndexName;
  const std::string text = TRY(read_small_file(path, kMaxIndexBytes));
  ShardIndex index = TRY(parse_shard_index(text, path.string()));
  for (std::size_t i = 0; i < index.files.size(); ++i) {
    std::error_code error;
    if (!std::filesystem::exists(folder / index.files[i], error)) {
      return fail(StatusCode::kNotFound,
                  "{}: file {} is missing from the folder; tensor {} is in it", path.string(),
                  in_quotes(index.files[i]), in_quotes(first_tensor_in(index, i)));
    }
  }
  return index;
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return fail(StatusCode::kNotFound, "{}: no such folder; expected a checkpoint folder",
                folder.string());
  }
  const bool sharded = std::filesystem::exists(folder / kIndexName, error);
  if (!sharded && !std::filesystem::exists(folder / kSingleName, error)) {
    return fail(StatusCode::kNotFound, "{}: no weights; expected {} or {}", folder.string(),
                kIndexName, kSingleName);
  }
  ShardIndex index;
  if (sharded) {
    index = TRY(read_index(folder));
  } else {
    index.files = {std::string(kSingleName)};
  }
  Checkpoint checkpoint;
  checkpoint.listing_ = folder / (sharded ? kIndexName : kSingleName);
  TRY(check_no_stray_file(folder, index.files, checkpoint.listing_.filename().string()));

  for (const std::string& name : index.files) {
    std::unique_ptr<SafetensorsFile> file = TRY(SafetensorsFile::open(folder / name));
    TensorTable table = file->release_tensors();
    for (auto& [tensor, entry] : table) entry.file = checkpoint.files_.size();
    checkpoint.tensors_.merge(table);
    checkpoint.files_.push_back(std::move(file));
    if (!table.empty()) {
      const auto& twice = *table.begin();
      return invalid("{}: tensor {} is also in {}; expected it in one file",
                     checkpoint.files_.back()->path().string(), in_quotes(twice.first),
                     checkpoint.file_of(*checkpoint.find(twice.first)).string());
    }
  }
  if (sharded) {
    TRY(check_placement(index, checkpoint.tensors_, folder, checkpoint.listing_.string()));
  }
  return checkpoint;
}

const TensorEntry* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::span<const std::byte> Checkpoint::bytes(const TensorEntry& entry) const {
  CHECK(entry.file < files_.size(), "file {} of {}", entry.file, files_.size());
  return files_[entry.file]->bytes(entry);
}

const std::filesystem::path& Checkpoint::file_of(const TensorEntry& entry) const {
  CHECK(entry.file < files_.size(), "file {} of {}", entry.file, files_.size());
  return files_[entry.file]->path();
}

void Checkpoint::release_pages() const {
  for (const auto& file : files_) file->release_pages();
}

std::int64_t Checkpoint::total_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [name, entry] : tensors_) bytes += entry.end - entry.begin;
  return static_cast<std::int64_t>(bytes);
}

}  // namespace tandem
