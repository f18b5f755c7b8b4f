// A look into the steps of an engine, for self-tests and diagnosis.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"

namespace tandem {

// Called by the thread that runs the steps.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // The experts chosen in a layer for tokens at `first_position` and behind: [tokens, top_k],
  // ascending in each row.
  virtual void on_experts(RequestId request, std::int64_t first_position, std::int64_t layer,
                          std::int64_t tokens, std::span<const std::int32_t> ids) = 0;
  // What the token at `position` is chosen from: [vocab].
  virtual void on_logits(RequestId request, std::int64_t position,
                         std::span<const float> logits) = 0;
};

}  // namespace tandem
