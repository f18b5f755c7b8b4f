// Attention Residuals' mix with its gradient (kernels/ops/residual_mix.h).
#pragma once

#include <span>

#include "tensor/thread_team.h"
#include "train/rows.h"

namespace tandem::train {

// `rows` are the bank's views and, last, the stream, each [T, H]:
//   s_j = rsqrt(mean(v_j^2) + eps) <v_j, query>;  a = softmax(s);  y = sum_j a_j v_j
template <typename T>
void residual_mix(std::span<const ConstRows<T>> rows, const float* query, float eps, Rows<T> y);

// Adds to drows[j], the gradient of rows[j], and to dquery [H] if it is wanted.
template <typename T>
void residual_mix_backward(std::span<const ConstRows<T>> rows, const float* query, float eps,
                           ConstRows<T> dy, std::span<const Rows<T>> drows, T* dquery,
                           ThreadTeam& team);

}  // namespace tandem::train
