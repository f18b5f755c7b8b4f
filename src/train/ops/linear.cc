#include "train/ops/linear.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "tensor/weight_tiles.h"

namespace tandem::train {
namespace {

template <typename T>
void decode_row(const WeightMatrix& weight, std::int64_t row, T* values) {
  if constexpr (std::is_same_v<T, float>) {
    widen_row(weight, row, values);
  } else {
    std::vector<float> floats(static_cast<std::size_t>(weight.inputs));
    widen_row(weight, row, floats.data());
    std::copy(floats.begin(), floats.end(), values);
  }
}

}  // namespace

template <typename T>
void decode_weight(const WeightMatrix& weight, Rows<T> values, ThreadTeam& team) {
  team.parallel_for(weight.outputs, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) decode_row(weight, row, values.row(row));
  });
}

template <typename T>
void embed(const WeightMatrix& table, std::span<const TokenId> ids, Rows<T> y) {
  for (std::size_t t = 0; t < ids.size(); ++t) {
    decode_row(table, ids[t], y.row(static_cast<std::int64_t>(t)));
  }
}

template <typename T>
void embed_backward(std::span<const TokenId> ids, ConstRows<T> dy, Rows<T> dtable) {
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const T* from = dy.row(static_cast<std::int64_t>(t));
    T* to = dtable.row(ids[t]);
    for (std::int64_t i = 0; i < dy.columns; ++i) to[i] += from[i];
  }
}

#define INSTANTIATE(T)                                                         \
  template void decode_weight(const WeightMatrix&, Rows<T>, ThreadTeam&);      \
  template void embed(const WeightMatrix&, std::span<const TokenId>, Rows<T>); \
  template void embed_backward(std::span<const TokenId>, ConstRows<T>, Rows<T>);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tandem::train
