// SIMD steps on rows, for the operators whose own structure is plain code. One thread each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/ops/norm.h"
#include "tensor/tensor_view.h"

namespace tandem::cpu {

// score = sigmoid(logit), choice = score + bias; all [experts].
void router_scores(const float* logits, const float* bias, std::int64_t experts, float* score,
                   float* choice) noexcept;

// gate = activation(gate, up)
void activate_rows(const ActivationSpec& spec, Activations gate, ConstActivations up) noexcept;

// y = sum_i weights[i] * rows.row(places[i]), in ascending order of i < count. y [columns]
void combine_rows(ConstActivations rows, const std::int32_t* places, const float* weights,
                  std::int64_t count, float* y) noexcept;

// row [width] of `dtype` = x [width], its first `normed` elements RMS-normalised with `weight`.
void store_latent_row(const float* x, std::int64_t width, std::int64_t normed, const float* weight,
                      float eps, DType dtype, std::byte* row) noexcept;

// Online softmax of query rows over blocks of keys.
struct RunningSoftmax {
  Activations scores;   // [rows, keys] of the block; weights after absorb_scores
  float* largest;       // [rows] largest score so far; -infinity at first
  float* sum;           // [rows] sum of exp(score - largest) so far
  Activations context;  // [rows, latent] sum of weight * latent row so far
};

// scores = exp(scores - largest), where `largest` takes them in first; sum and context shrink when
// it grows.
void absorb_scores(const RunningSoftmax& softmax) noexcept;

// context /= sum
void finish_context(const RunningSoftmax& softmax) noexcept;

}  // namespace tandem::cpu
