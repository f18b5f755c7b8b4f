#include "model/safetensors_writer.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "model/input.h"

namespace tandem {
namespace {

std::uint64_t info_bytes(const TensorInfo& info) {
  std::uint64_t bytes = element_bytes(info.dtype);
  for (std::int64_t size : info.shape) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Result<SafetensorsWriter> SafetensorsWriter::create(const std::filesystem::path& path,
                                                    std::span<const TensorInfo> tensors) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  std::uint64_t end = 0;
  for (const TensorInfo& info : tensors) {
    const std::uint64_t begin = end;
    end += info_bytes(info);
    text += fmt::format(R"(,{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})",
                        json_string(info.name), to_string(info.dtype), shape_text(info.shape),
                        begin, end);
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data section starts aligned

  SafetensorsWriter writer;
  writer.path_ = path;
  writer.remaining_bytes_ = end;
  writer.file_.open(path, std::ios::binary | std::ios::trunc);
  std::array<char, 8> length = {};
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<char>((static_cast<std::uint64_t>(text.size()) >> (8 * i)) & 0xff);
  }
  writer.file_.write(length.data(), length.size());
  writer.file_.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!writer.file_) return invalid("{}: cannot be written", path.string());
  return writer;
}

Result<void> SafetensorsWriter::append(std::span<const std::byte> bytes) {
  CHECK(bytes.size() <= remaining_bytes_, "{} bytes for {} left", bytes.size(), remaining_bytes_);
  remaining_bytes_ -= bytes.size();
  file_.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  if (!file_) return fail(StatusCode::kInternal, "{}: write failed (disk full?)", path_.string());
  return {};
}

Result<void> SafetensorsWriter::finish() {
  CHECK(remaining_bytes_ == 0, "{} bytes were not written", remaining_bytes_);
  file_.close();
  if (!file_) return fail(StatusCode::kInternal, "{}: write failed (disk full?)", path_.string());
  return {};
}

Result<void> write_safetensors(const std::filesystem::path& path,
                               std::span<const TensorToWrite> tensors) {
  std::vector<TensorInfo> infos;
  for (const TensorToWrite& tensor : tensors) infos.push_back(tensor.info);
  SafetensorsWriter writer = TRY(SafetensorsWriter::create(path, infos));
  for (const TensorToWrite& tensor : tensors) TRY(writer.append(tensor.bytes));
  return writer.finish();
}

}  // namespace tandem
