// What is asked: conversations, made up from a seed or read from a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace tandem::loadgen {

// What one request adds to its conversation. The same in two forms, one for each endpoint.
struct Turn {
  std::string messages;         // chat: JSON objects, separated by commas; at least one
  std::string text;             // completions: plain text
  std::int64_t max_tokens = 0;  // of the answer; 0: unsaid
};

// Immutable, thread-safe.
class Workload {
 public:
  virtual ~Workload() = default;

  // The turns of conversation `index` >= 0, at least one; without end, repeating if need be. The
  // same for the same index.
  virtual std::vector<Turn> conversation(std::int64_t index) const = 0;
};

// Lengths are in tokens as far as one word of the list that prompts are made of is one token; the
// server's own count stands in the report.
struct SyntheticOptions {
  std::int64_t prompt_tokens = 256;  // of each turn, beside the shared prefix; >= 1
  std::int64_t answer_tokens = 64;   // >= 1
  // Both lengths are uniform between (1 - spread) and (1 + spread) times that; in [0, 1].
  double spread = 0.5;
  std::int64_t groups = 0;         // conversations i, i + groups, ... share a prefix; 0: none do
  std::int64_t prefix_tokens = 0;  // of each group
  std::int64_t turns = 1;
  std::uint64_t seed = 0;
};
std::unique_ptr<Workload> synthetic_workload(const SyntheticOptions& options);

// One conversation of one turn for each line ({"messages": [...]} or {"prompt": "..."}, either with
// "max_tokens") or, in a JSON array as ShareGPT's dumps are ({"conversations": [{"from": "human",
// "value": "..."}, ...]}), for each entry's first question; entries without one are left out.
// Where a file says no length, `answer_tokens` counts. Errors name the line.
Result<std::unique_ptr<Workload>> read_dataset(const std::filesystem::path& file,
                                               std::int64_t answer_tokens);
Result<std::unique_ptr<Workload>> parse_dataset(std::string_view text, std::int64_t answer_tokens);

// A turn that asks `text` as a user.
Turn user_turn(const std::string& text, std::int64_t max_tokens);

}  // namespace tandem::loadgen
