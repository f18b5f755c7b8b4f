// What a forward step has to read, write and compute, counted by stage from shapes alone.
//
// Bytes are those that come from memory however well a step is written: each weight once a step,
// the states, convolution windows and latent rows of its requests. Activations are not counted, for
// they stay in the caches. FLOP are the multiplications and additions of products, recurrences,
// convolutions, norms and mixes; activation functions are not counted.
#pragma once

#include <array>
#include <cstdint>

#include "model/model.h"

namespace tandem::measure {

struct Work {
  double weight_bytes = 0;
  double memory_read_bytes = 0;   // states, windows, rows
  double memory_write_bytes = 0;  // likewise
  double flop = 0;

  double read_bytes() const { return weight_bytes + memory_read_bytes; }
  Work& operator+=(const Work& other);
  Work& operator/=(double count);
};

using StepWork = std::array<Work, kStageCount>;

Work total(const StepWork& work);

// One step: so many sequences, all alike.
struct StepShape {
  std::int64_t sequences = 1;
  std::int64_t rows_each = 1;   // tokens of each
  std::int64_t context = 0;     // tokens of each before those
  std::int64_t logit_rows = 0;  // in all; 0: the head is not computed
  double distinct_experts = 0;  // that any token goes to, mean of the layers that route
};

// `weights` are read for their shapes and dtypes only: the data may be missing.
StepWork step_work(const ModelSpec& spec, const ModelWeights& weights, const MemoryLayout& memory,
                   const StepShape& shape);

// Of one layer, for so many tokens that choose independently and evenly.
double expected_distinct_experts(std::int64_t experts, std::int64_t top_k, std::int64_t tokens);

}  // namespace tandem::measure
