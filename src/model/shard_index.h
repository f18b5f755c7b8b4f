// model.safetensors.index.json: which file holds which tensor.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem {

struct ShardIndex {
  std::vector<std::string> files;                           // plain names, sorted, unique
  std::map<std::string, std::size_t, std::less<>> tensors;  // name -> index into `files`
};

// Errors name `source`: JSON of another form, a tensor listed twice, a file name that is a path.
// Safe on hostile input.
Result<ShardIndex> parse_shard_index(std::string_view json, std::string_view source);

}  // namespace tandem
