// For the tests of this folder: checkpoints that can be changed before they are written.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "model/safetensors_writer.h"

namespace tandem {

// A folder of its own, removed with all that is in it.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tandem_test_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline std::filesystem::path source_folder() { return TANDEM_SOURCE_DIR; }

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
}

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

// Names the cases of a table by their `name`.
struct CaseName {
  template <typename T>
  std::string operator()(const testing::TestParamInfo<T>& row) const {
    return row.param.name;
  }
};

// A message for a person: one line, with every one of `parts` in it.
inline void expect_one_line(const std::string& message, const std::vector<std::string>& parts) {
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 500u) << message;
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << message << "\n  lacks: " << part;
  }
}

}  // namespace tandem
