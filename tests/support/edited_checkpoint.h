// Checkpoints that a test changes before it writes and loads them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "model/config.h"
#include "model/safetensors_writer.h"
#include "model/weights.h"
#include "support/cases.h"
#include "support/temp_folder.h"

namespace tandem {

struct EditableTensor {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

struct EditableCheckpoint {
  nlohmann::json config;
  std::map<std::string, EditableTensor> tensors;

  static EditableCheckpoint read(const std::filesystem::path& folder) {
    EditableCheckpoint result;
    result.config = nlohmann::json::parse(read_text(folder / "config.json"));
    const Checkpoint checkpoint = Checkpoint::open(folder).value();
    for (const auto& [name, entry] : checkpoint.tensors()) {
      const auto bytes = checkpoint.bytes(entry);
      result.tensors[name] = {
          entry.dtype, entry.shape, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
    }
    return result;
  }

  // config.json and one file of the given name, with tensors in the order of their names.
  void write(const std::filesystem::path& folder) const {
    write_text(folder / "config.json", config.dump());
    write_shard(folder / "model.safetensors", "");
  }

  // Only tensors whose name begins with `prefix`.
  void write_shard(const std::filesystem::path& path, std::string_view prefix) const {
    std::vector<TensorToWrite> list;
    for (const auto& [name, tensor] : tensors) {
      if (!name.starts_with(prefix)) continue;
      list.push_back({{name, tensor.dtype, tensor.shape}, std::as_bytes(std::span(tensor.bytes))});
    }
    const auto written = write_safetensors(path, list);
    ASSERT_TRUE(written) << written.error().message;
  }
};

inline Result<ModelWeights> load_checkpoint(const std::filesystem::path& folder,
                                            const LoadOptions& options = {}) {
  const ModelSpec spec = TRY(read_config(folder));
  return load_weights(spec, TRY(Checkpoint::open(folder)), options);
}

// A golden checkpoint, changed by a test, written and loaded.
class EditedCheckpoint : public testing::Test {
 protected:
  void use(std::string_view name) {
    content_ = EditableCheckpoint::read(source_folder() / "tests/data/golden" / name);
  }
  EditableTensor& tensor(const std::string& name) { return content_.tensors.at(name); }
  Result<ModelWeights> load_edited(const LoadOptions& options = {}) {
    content_.write(folder_.path());
    return load_checkpoint(folder_.path(), options);
  }
  ModelWeights must_load() {
    auto weights = load_edited();
    if (!weights) throw std::runtime_error(weights.error().message);
    return *std::move(weights);
  }
  static std::vector<float> floats(const EditableTensor& tensor) {
    std::vector<float> values(tensor.bytes.size() / element_bytes(tensor.dtype));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (tensor.dtype == DType::kBF16) {
        BF16 element;
        std::memcpy(&element, tensor.bytes.data() + 2 * i, 2);
        values[i] = to_float(element);
      } else {
        std::memcpy(&values[i], tensor.bytes.data() + 4 * i, 4);
      }
    }
    return values;
  }
  static void set_floats(EditableTensor& tensor, const std::vector<float>& values) {
    tensor.dtype = DType::kF32;
    tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  }

  EditableCheckpoint content_;
  TempFolder folder_;
};

}  // namespace tandem
