#include "model/make_random.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "model/config.h"
#include "model/input.h"
#include "model/random_weights.h"
#include "tensor/aligned_buffer.h"
#include "tensor/thread_team.h"

namespace tandem {
namespace {

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{4} << 20;
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

// The configuration of the first `layers` layers. `text` has been parsed as a configuration before.
Result<std::string> cut_layers(const std::string& text, std::string_view source, std::int64_t count,
                               std::int64_t layers) {
  if (layers < 1 || layers > count) {
    return invalid("{}: {} layers asked for; expected 1 to {}", source, layers, count);
  }
  auto config = nlohmann::ordered_json::parse(text);
  auto& model = config.contains("text_config") ? config["text_config"] : config;
  model["num_hidden_layers"] = layers;
  model["first_k_dense_replace"] =
      std::min(model["first_k_dense_replace"].get<std::int64_t>(), layers);
  for (const char* name : {"kda_layers", "full_attn_layers"}) {
    auto& list = model["linear_attn_config"][name];
    nlohmann::ordered_json kept = nlohmann::ordered_json::array();
    for (const auto& layer : list) {
      if (layer.get<std::int64_t>() <= layers) kept.push_back(layer);
    }
    list = std::move(kept);
  }
  return config.dump(1) + "\n";
}

using Shard = std::vector<RandomTensor>;

// Fills shards in the order of the layers; inside one, wide elements come first and stay aligned.
std::vector<Shard> into_shards(std::vector<RandomTensor> tensors, std::uint64_t shard_bytes) {
  std::vector<Shard> shards;
  std::uint64_t bytes = 0;
  for (RandomTensor& tensor : tensors) {
    if (shards.empty() || bytes + tensor.bytes() > shard_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += tensor.bytes();
    shards.back().push_back(std::move(tensor));
  }
  for (Shard& shard : shards) {
    std::stable_sort(shard.begin(), shard.end(), [](const RandomTensor& a, const RandomTensor& b) {
      return element_bytes(a.info.dtype) > element_bytes(b.info.dtype);
    });
  }
  return shards;
}

Result<void> write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) return fail(StatusCode::kInternal, "{}: cannot be written", path.string());
  return {};
}

// Makes values in pieces and hands them to the writer of a shard.
class ShardMaker {
 public:
  ShardMaker(const MakeRandomOptions& options, std::uint64_t total_bytes)
      : options_(options),
        total_bytes_(total_bytes),
        team_(std::max(options.threads, 1)),
        piece_(kPieceBytes) {}

  Result<void> write(const std::filesystem::path& path, const Shard& shard) {
    std::vector<TensorInfo> infos;
    for (const RandomTensor& tensor : shard) infos.push_back(tensor.info);
    SafetensorsWriter writer = TRY(SafetensorsWriter::create(path, infos));
    for (const RandomTensor& tensor : shard) TRY(write_tensor(tensor, writer));
    return writer.finish();
  }

 private:
  Result<void> write_tensor(const RandomTensor& tensor, SafetensorsWriter& writer) {
    const std::uint64_t bytes = tensor.bytes();
    const std::size_t width = element_bytes(tensor.info.dtype);
    for (std::uint64_t at = 0; at < bytes; at += kPieceBytes) {
      const auto piece = piece_.span().first(
          static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, bytes - at)));
      constexpr std::int64_t kUnit = 4096;  // bytes; a whole number of blocks of every dtype
      const auto units = static_cast<std::int64_t>((piece.size() + kUnit - 1) / kUnit);
      team_.parallel_for(units, 16, [&](std::int64_t begin, std::int64_t end) {
        const auto first = static_cast<std::size_t>(begin * kUnit);
        const auto last = std::min(static_cast<std::size_t>(end * kUnit), piece.size());
        fill_random(tensor, options_.seed, static_cast<std::int64_t>((at + first) / width),
                    piece.subspan(first, last - first));
      });
      TRY(writer.append(piece));
      done_bytes_ += piece.size();
      if (options_.progress != nullptr) {
        options_.progress(static_cast<double>(done_bytes_) / static_cast<double>(total_bytes_),
                          options_.progress_context);
      }
    }
    return {};
  }

  const MakeRandomOptions& options_;
  std::uint64_t total_bytes_;
  std::uint64_t done_bytes_ = 0;
  ThreadTeam team_;
  AlignedBuffer<std::byte> piece_;
};

// Makes the folder, which must be new or empty, and checks that `bytes` fit.
Result<void> prepare_folder(const std::filesystem::path& folder, std::uint64_t bytes) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder, error)) {
    return invalid("{}: cannot be made a folder; expected a new or an empty folder",
                   folder.string());
  }
  if (!std::filesystem::is_empty(folder, error)) {
    return invalid("{}: not empty; expected a new or an empty folder", folder.string());
  }
  const auto space = std::filesystem::space(folder, error);
  if (!error && space.available < bytes) {
    return fail(StatusCode::kResourceExhausted, "{}: {} bytes to write, {} bytes free",
                folder.string(), bytes, space.available);
  }
  return {};
}

}  // namespace

Result<void> make_random_checkpoint(const std::filesystem::path& config,
                                    const std::filesystem::path& folder,
                                    const MakeRandomOptions& options) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(config, error);
  const std::filesystem::path config_path = is_folder ? config / "config.json" : config;
  const std::string source = config_path.string();
  std::string text = TRY(read_small_file(config_path, kMaxConfigBytes));
  ModelSpec spec = TRY(parse_config(text, source));
  if (options.layers) {
    const auto count = static_cast<std::int64_t>(spec.layers.size());
    text = TRY(cut_layers(text, source, count, *options.layers));
    spec = TRY(parse_config(text, source));
  }

  std::vector<RandomTensor> tensors = TRY(random_tensors(spec));
  std::uint64_t total_bytes = 0;
  for (const RandomTensor& tensor : tensors) total_bytes += tensor.bytes();
  TRY(prepare_folder(folder, total_bytes));

  const std::vector<Shard> shards = into_shards(std::move(tensors), options.shard_bytes);
  ShardMaker maker(options, total_bytes);
  std::map<std::string, std::string> weight_map;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    TRY(maker.write(folder / name, shards[i]));
    for (const RandomTensor& tensor : shards[i]) weight_map[tensor.info.name] = name;
  }
  const nlohmann::ordered_json index = {{"metadata", {{"total_size", total_bytes}}},
                                        {"weight_map", weight_map}};
  TRY(write_text(folder / "model.safetensors.index.json", index.dump(1) + "\n"));
  return write_text(folder / "config.json", text);
}

}  // namespace tandem
