// A file that a command's result goes to.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "base/status.h"

namespace tandem {

// Opened before the run: nobody wants to learn afterwards that the result has no place.
class OutputFile {
 public:
  // No name, no file: nothing is written.
  static Result<OutputFile> open(const std::string& name) {
    OutputFile file;
    if (name.empty()) return file;
    file.name_ = name;
    file.file_.reset(std::fopen(name.c_str(), "w"));
    if (!file.file_) return invalid("{} cannot be written: {}", name, std::strerror(errno));
    return file;
  }
  // Closes it too.
  Result<void> write(const std::string& text) {
    if (!file_) return {};
    const bool written = std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size();
    if (std::fclose(file_.release()) == 0 && written) return {};
    return fail(StatusCode::kInternal, "{} cannot be written: {}", name_, std::strerror(errno));
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string name_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace tandem
