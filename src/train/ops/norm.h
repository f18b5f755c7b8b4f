// Norms, gates and activations with their gradients: the operators of kernels/ops/norm.h for float
// and double.
//
// Throughout src/train: forward functions overwrite, backward functions add to the gradients that
// they are given. A gradient pointer that is nullptr is not wanted. Gradients may not alias inputs.
#pragma once

#include "kernels/ops/norm.h"
#include "tensor/thread_team.h"
#include "train/rows.h"

namespace tandem::train {

// y = x * rsqrt(mean(x^2) + eps) * weight; y may alias x.
template <typename T>
void rms_norm(ConstRows<T> x, const float* weight, float eps, Rows<T> y);
template <typename T>
void rms_norm_backward(ConstRows<T> x, const float* weight, float eps, ConstRows<T> dy, Rows<T> dx,
                       T* dweight, ThreadTeam& team);

// Head by head y = x * rsqrt(mean_d(x^2) + eps) * weight[d] * sigmoid(gate). Rows are
// [heads * d], weight [d].
template <typename T>
void gated_rms_norm(ConstRows<T> x, ConstRows<T> gate, const float* weight, std::int64_t heads,
                    float eps, Rows<T> y);
template <typename T>
void gated_rms_norm_backward(ConstRows<T> x, ConstRows<T> gate, const float* weight,
                             std::int64_t heads, float eps, ConstRows<T> dy, Rows<T> dx,
                             Rows<T> dgate, T* dweight, ThreadTeam& team);

// y = x * sigmoid(gate)
template <typename T>
void sigmoid_gate(ConstRows<T> x, ConstRows<T> gate, Rows<T> y);
template <typename T>
void sigmoid_gate_backward(ConstRows<T> x, ConstRows<T> gate, ConstRows<T> dy, Rows<T> dx,
                           Rows<T> dgate, ThreadTeam& team);

// y = activation(gate, up); y may alias gate.
template <typename T>
void gated_activation(const ActivationSpec& spec, ConstRows<T> gate, ConstRows<T> up, Rows<T> y);
template <typename T>
void gated_activation_backward(const ActivationSpec& spec, ConstRows<T> gate, ConstRows<T> up,
                               ConstRows<T> dy, Rows<T> dgate, Rows<T> dup, ThreadTeam& team);

}  // namespace tandem::train
