// `tandem run --input-ids`: token ids in, token ids out.
#pragma once

#include <span>

#include "engine/served_model.h"
#include "run_options.h"

namespace tandem {

Result<void> run_ids(const ServedModel& model, const RunOptions& options,
                     const SamplingParams& sampling, std::span<const TokenId> ids);

}  // namespace tandem
