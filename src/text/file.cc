#include "text/file.h"

#include <fstream>
#include <iterator>

namespace tandem {

Result<std::string> read_text_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in || !std::filesystem::is_regular_file(file)) {
    return fail(StatusCode::kNotFound, "{}: expected a readable file", file.string());
  }
  std::string content((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) return fail(StatusCode::kInternal, "{}: reading failed", file.string());
  return content;
}

}  // namespace tandem
