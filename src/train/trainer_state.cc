#include "train/trainer_state.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "model/input.h"
#include "model/safetensors.h"
#include "model/safetensors_writer.h"
#include "train/files.h"

namespace tandem::train {
namespace {

constexpr std::string_view kPrefix = "step_";
constexpr const char* kTensorFile = "state.safetensors";
constexpr const char* kJsonFile = "state.json";
constexpr const char* kBufferPrefix = "buffer.";
constexpr std::uint64_t kMaxJsonBytes = std::uint64_t{64} << 20;

// The steps of complete states, ascending.
std::vector<std::int64_t> saved_steps(const std::filesystem::path& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    std::int64_t step = 0;
    const char* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + kPrefix.size(), end, step);
    if (parsed.ec == std::errc() && parsed.ptr == end) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::filesystem::path step_folder(const std::filesystem::path& folder, std::int64_t step) {
  return folder / fmt::format("{}{}", kPrefix, step);
}

Result<void> write_parts(const TrainerState& state, const std::filesystem::path& folder) {
  std::vector<TensorToWrite> tensors;
  const auto add_floats = [&](const char* name, const std::vector<float>& values) {
    tensors.push_back({{name, DType::kF32, {static_cast<std::int64_t>(values.size())}},
                       std::as_bytes(std::span(values))});
  };
  add_floats("values", state.values);
  add_floats("first", state.optimiser.first);
  add_floats("second", state.optimiser.second);
  for (const auto& [name, bytes] : state.buffers) {
    tensors.push_back(
        {{kBufferPrefix + name, DType::kU8, {static_cast<std::int64_t>(bytes.size())}},
         std::as_bytes(std::span(bytes))});
  }
  TRY(replace_file(folder / kTensorFile, [&](const std::filesystem::path& part) {
    return write_safetensors(part, tensors);
  }));
  nlohmann::ordered_json json;
  json["counters"] = state.counters;
  json["optimiser_steps"] = state.optimiser.steps;
  json["layout"] = state.layout;
  return replace_text_file(folder / kJsonFile, json.dump(1) + "\n");
}

Result<std::vector<float>> read_floats(const SafetensorsFile& file, const char* name) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end() || found->second.dtype != DType::kF32) {
    return invalid("{}: has no F32 tensor '{}'", file.path().string(), name);
  }
  std::vector<float> values(static_cast<std::size_t>(found->second.elements()));
  const auto bytes = file.bytes(found->second);
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Result<void> read_json(const std::filesystem::path& path, TrainerState& state) {
  const std::string text = TRY(read_small_file(path, kMaxJsonBytes));
  try {
    const auto json = nlohmann::json::parse(text);
    json.at("counters").get_to(state.counters);
    json.at("optimiser_steps").get_to(state.optimiser.steps);
    json.at("layout").get_to(state.layout);
  } catch (const nlohmann::json::exception& error) {
    return invalid("{}: not a trainer's state: {}", path.string(), error.what());
  }
  return {};
}

}  // namespace

bool TrainerState::operator==(const TrainerState& other) const {
  return layout == other.layout && counters == other.counters && buffers == other.buffers &&
         values == other.values && optimiser.steps == other.optimiser.steps &&
         optimiser.first == other.optimiser.first && optimiser.second == other.optimiser.second;
}

Result<void> save_state(const TrainerState& state, const std::filesystem::path& folder, int keep) {
  CHECK(state.counters.contains("step") && keep >= 1, "a state without a step, or {} to keep",
        keep);
  const std::int64_t step = state.counters.at("step");
  const std::filesystem::path unfinished = folder / "unfinished";
  std::error_code error;
  std::filesystem::remove_all(unfinished, error);
  std::filesystem::create_directories(unfinished, error);
  if (error) return invalid("{}: cannot be made: {}", unfinished.string(), error.message());
  TRY(write_parts(state, unfinished));
  const std::filesystem::path finished = step_folder(folder, step);
  std::filesystem::remove_all(finished, error);
  std::filesystem::rename(unfinished, finished, error);
  if (error) return invalid("{}: cannot be renamed: {}", unfinished.string(), error.message());
  TRY(flush_to_disk(folder));
  const std::vector<std::int64_t> steps = saved_steps(folder);
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < steps.size(); ++i) {
    std::filesystem::remove_all(step_folder(folder, steps[i]), error);
  }
  return {};
}

Result<TrainerState> load_newest_state(const std::filesystem::path& folder,
                                       const std::string& layout) {
  const std::vector<std::int64_t> steps = saved_steps(folder);
  if (steps.empty()) {
    return fail(StatusCode::kNotFound, "{}: holds no saved state", folder.string());
  }
  const std::filesystem::path newest = step_folder(folder, steps.back());
  TrainerState state;
  TRY(read_json(newest / kJsonFile, state));
  if (state.layout != layout) {
    return invalid("{}: was saved for other weights; expected {}, got {}", newest.string(),
                   in_quotes(layout), in_quotes(state.layout));
  }
  const auto file = TRY(SafetensorsFile::open(newest / kTensorFile));
  state.values = TRY(read_floats(*file, "values"));
  state.optimiser.first = TRY(read_floats(*file, "first"));
  state.optimiser.second = TRY(read_floats(*file, "second"));
  if (state.optimiser.first.size() != state.values.size() ||
      state.optimiser.second.size() != state.values.size()) {
    return invalid("{}: values and moments differ in length", file->path().string());
  }
  for (const auto& [name, entry] : file->tensors()) {
    if (!name.starts_with(kBufferPrefix)) continue;
    const auto bytes = file->bytes(entry);
    state.buffers[name.substr(std::strlen(kBufferPrefix))] =
        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return state;
}

}  // namespace tandem::train
