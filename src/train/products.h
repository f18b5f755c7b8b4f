// The three matrix products of a linear map and its gradients.
//
// Instantiated for float and double. Each output element is summed in ascending order of the
// reduced index, so results depend neither on the number of threads nor on the place in the batch.
#pragma once

#include "tensor/thread_team.h"
#include "train/rows.h"

namespace tandem::train {

// y[t][o] += sum_i x[t][i] w[o][i]
template <typename T>
void add_forward_product(ConstRows<T> x, ConstRows<T> w, Rows<T> y, ThreadTeam& team);

// dx[t][i] += sum_o dy[t][o] w[o][i]
template <typename T>
void add_input_gradient(ConstRows<T> dy, ConstRows<T> w, Rows<T> dx, ThreadTeam& team);

// dw[o][i] += sum_t dy[t][o] x[t][i]
template <typename T>
void add_weight_gradient(ConstRows<T> dy, ConstRows<T> x, Rows<T> dw, ThreadTeam& team);

}  // namespace tandem::train
