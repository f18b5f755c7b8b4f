// The options with which every command chooses and loads a model.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/model.h"

namespace CLI {
class App;
}

namespace tandem {

struct ModelOptions {
  std::string folder;  // empty: the bundled demo model
  std::string precision = "default";
  std::string backend = "cpu";
  int threads = 0;

  // --precision, --backend, --threads; the model itself is an option or an argument of the command.
  void add_to(CLI::App& command);
  void add_precision(CLI::App& command);

  // The chosen folder, or where the demo model stands relative to the program.
  Result<std::filesystem::path> model_folder() const;
  Precision chosen_precision() const;
  const KernelSet& kernels() const;
};

// Of a checkpoint folder, or of a configuration file.
std::string model_name(const std::filesystem::path& path);

// Shows on stderr, if that is a terminal, how far something has come once it has taken over a
// second. `label` is a C string. One task a process.
void show_progress(double share, void* label);

LoadOptions loading_options();

// "tandem: line" on stderr, each.
void print_lines(const std::vector<std::string>& lines);

// "tandem: message" on stderr; returns the exit code of the status.
int report_failure(const Status& status);

}  // namespace tandem
