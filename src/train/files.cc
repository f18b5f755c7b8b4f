#include "train/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>

namespace tandem::train {

Result<void> flush_to_disk(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool flushed = file >= 0 && ::fsync(file) == 0;
  if (file >= 0) ::close(file);
  if (!flushed) return fail(StatusCode::kInternal, "{}: cannot be flushed to disk", path.string());
  return {};
}

Result<void> replace_file(const std::filesystem::path& path,
                          const std::function<Result<void>(const std::filesystem::path&)>& write) {
  std::filesystem::path part = path;
  part += ".part";
  TRY(write(part));
  TRY(flush_to_disk(part));
  std::error_code error;
  std::filesystem::rename(part, path, error);
  if (error) return invalid("{}: cannot be replaced: {}", path.string(), error.message());
  return flush_to_disk(path.parent_path());
}

Result<void> replace_text_file(const std::filesystem::path& path, std::string_view text) {
  return replace_file(path, [&](const std::filesystem::path& part) -> Result<void> {
    std::ofstream file(part, std::ios::binary | std::ios::trunc);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.close();
    if (!file) return invalid("{}: cannot be written", part.string());
    return {};
  });
}

}  // namespace tandem::train
