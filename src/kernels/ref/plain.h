// What the reference operators share: everything in double, in ascending order.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/ops/norm.h"
#include "tensor/tensor_view.h"

namespace tandem::reference {

inline std::vector<double> zeros(std::int64_t size) {
  return std::vector<double>(static_cast<std::size_t>(size));
}

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }

// 1 / sqrt(mean(x^2) + eps)
double inverse_rms(const float* x, std::int64_t size, double eps);

// activation(gate, up) of one element.
double activate(const ActivationSpec& spec, double gate, double up);

// y = W x for one row: x [inputs], y [outputs].
void multiply(const WeightMatrix& weight, const float* x, float* y);

// Element `i` of an array of kF32 or kBF16, and its inverse, which rounds.
double load(const std::byte* data, DType dtype, std::int64_t i);
void store(std::byte* data, DType dtype, std::int64_t i, double value);

}  // namespace tandem::reference
