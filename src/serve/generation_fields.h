// What requests of every protocol say about how to generate, beside the prompt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sample/sampler.h"

namespace tandem {

struct GenerationFields {
  std::string model = {};                  // empty: whatever is served
  SamplingParams sampling = {};            // without a seed
  std::optional<std::uint64_t> seed = {};  // nullopt: a random one
  std::int64_t max_tokens = -1;            // -1: what the context leaves
  std::vector<std::string> stop = {};
  int choices = 1;
  std::string cache_salt = {};  // prompts share cached prefixes with those of the same salt only
  int priority = 0;             // higher first
  bool stream = false;
  bool include_usage = false;  // a last chunk with the usage
};

}  // namespace tandem
