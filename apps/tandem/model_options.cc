#include "model_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "engine/system_memory.h"

namespace tandem {
namespace {

// The folder of this program's own file.
std::filesystem::path program_folder() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::current_path() : program.parent_path();
}

}  // namespace

void ModelOptions::add_precision(CLI::App& command) {
  command
      .add_option(
          "--precision", precision,
          "exact: fp32, the same bits for any batch, chunking and thread count; default: faster")
      ->check(CLI::IsMember({"exact", "default"}))
      ->capture_default_str();
}

void ModelOptions::add_to(CLI::App& command) {
  add_precision(command);
  command.add_option("--backend", backend, "cpu: SIMD; ref: plain loops, the specification, slow")
      ->check(CLI::IsMember({"cpu", "ref"}))
      ->capture_default_str();
  command.add_option("--threads", threads, "threads of the forward pass; 0: one a processor")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

Result<std::filesystem::path> ModelOptions::model_folder() const {
  if (!folder.empty()) return std::filesystem::path(folder);
  // Beside the program in an installed bundle, some levels up in a build tree.
  for (auto at = program_folder();; at = at.parent_path()) {
    const auto demo = at / "models" / "demo";
    if (std::filesystem::exists(demo / "config.json")) return demo;
    if (at == at.parent_path()) break;
  }
  return fail(
      StatusCode::kNotFound,
      "the bundled model models/demo is not beside the program; name a folder with --model");
}

Precision ModelOptions::chosen_precision() const {
  return precision == "exact" ? Precision::kExact : Precision::kDefault;
}

const KernelSet& ModelOptions::kernels() const {
  return backend == "ref" ? reference_kernels() : cpu_kernels();
}

std::string model_name(const std::filesystem::path& path) {
  // "models/demo/" has an empty last component.
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

void show_progress(double share, void* label) {
  using Clock = std::chrono::steady_clock;
  static const Clock::time_point start = Clock::now();
  static Clock::time_point shown = start;
  static bool visible = false;
  const Clock::time_point now = Clock::now();
  const bool due =
      now - start > std::chrono::seconds(1) && now - shown > std::chrono::milliseconds(200);
  if ((!due && share < 1) || isatty(STDERR_FILENO) == 0) return;
  if (share < 1) {
    visible = true;
    shown = now;
    fmt::print(stderr, "\r{}: {:3.0f} %", static_cast<const char*>(label), share * 100);
  } else if (visible) {
    fmt::print(stderr, "\r\x1b[K");
  }
  std::fflush(stderr);
}

LoadOptions loading_options() {
  static char label[] = "loading the model";
  LoadOptions options{.progress = show_progress, .progress_context = label};
  // Where the system does not say, the weights are taken to fit.
  if (const auto memory = read_system_memory()) options.memory_bytes = memory->available_bytes;
  return options;
}

void print_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) fmt::print(stderr, "tandem: {}\n", line);
}

int report_failure(const Status& status) {
  fmt::print(stderr, "tandem: {}\n", status.message);
  return exit_code(status.code);
}

}  // namespace tandem
