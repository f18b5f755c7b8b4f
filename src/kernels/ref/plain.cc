#include "kernels/ref/plain.h"

#include <cstring>

#include "base/check.h"
#include "tensor/weight_tiles.h"

namespace tandem::reference {

double inverse_rms(const float* x, std::int64_t size, double eps) {
  double sum = 0;
  for (std::int64_t i = 0; i < size; ++i) sum += static_cast<double>(x[i]) * x[i];
  return 1.0 / std::sqrt(sum / static_cast<double>(size) + eps);
}

double activate(const ActivationSpec& spec, double gate, double up) {
  if (spec.kind == GatedActivation::kSwiGlu) return silu(gate) * up;
  const double gate_beta = spec.gate_beta;
  const double up_beta = spec.up_beta;
  // The sigmoid takes the gate itself, not its bounded form.
  return gate_beta * std::tanh(gate / gate_beta) * sigmoid(gate) * up_beta *
         std::tanh(up / up_beta);
}

void multiply(const WeightMatrix& weight, const float* x, float* y) {
  std::vector<float> row(static_cast<std::size_t>(weight.inputs));
  for (std::int64_t o = 0; o < weight.outputs; ++o) {
    widen_row(weight, o, row.data());
    double sum = 0;
    for (std::int64_t i = 0; i < weight.inputs; ++i) sum += static_cast<double>(row[i]) * x[i];
    y[o] = static_cast<float>(sum);
  }
}

double load(const std::byte* data, DType dtype, std::int64_t i) {
  if (dtype == DType::kBF16) {
    BF16 value;
    std::memcpy(&value, data + i * 2, sizeof(value));
    return to_float(value);
  }
  CHECK(dtype == DType::kF32, "{} is no element type of an operator", to_string(dtype));
  float value;
  std::memcpy(&value, data + i * 4, sizeof(value));
  return value;
}

void store(std::byte* data, DType dtype, std::int64_t i, double value) {
  const auto rounded = static_cast<float>(value);
  if (dtype == DType::kBF16) {
    const BF16 narrow = to_bf16(rounded);
    std::memcpy(data + i * 2, &narrow, sizeof(narrow));
    return;
  }
  CHECK(dtype == DType::kF32, "{} is no element type of an operator", to_string(dtype));
  std::memcpy(data + i * 4, &rounded, sizeof(rounded));
}

}  // namespace tandem::reference
