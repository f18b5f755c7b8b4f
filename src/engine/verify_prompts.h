// What `tandem verify` asks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "model/model_spec.h"

namespace tandem {

// `count` chats of up to about `longest` tokens (never more than fit the context), many of which
// begin alike, as those of one application do. Random ids where the folder has no tokenizer. Same
// seed, same prompts.
Result<std::vector<std::vector<TokenId>>> verify_prompts(const std::filesystem::path& folder,
                                                         const ModelSpec& spec, std::int64_t count,
                                                         std::int64_t longest, std::uint64_t seed);

}  // namespace tandem
