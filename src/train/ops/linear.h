// Frozen and trained matrices as training reads them, and the embedding. Conventions: ops/norm.h.
#pragma once

#include "base/ids.h"
#include "tensor/thread_team.h"
#include "train/rows.h"

namespace tandem::train {

// A weight of any stored dtype as values, exactly: [outputs, inputs]. MXFP4 codes times their scale
// have at most two significant bits, so nothing is rounded.
template <typename T>
void decode_weight(const WeightMatrix& weight, Rows<T> values, ThreadTeam& team);

// y[t] = table[ids[t]]
template <typename T>
void embed(const WeightMatrix& table, std::span<const TokenId> ids, Rows<T> y);
// dtable [vocabulary, H]
template <typename T>
void embed_backward(std::span<const TokenId> ids, ConstRows<T> dy, Rows<T> dtable);

}  // namespace tandem::train
