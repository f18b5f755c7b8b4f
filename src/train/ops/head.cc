#include "train/ops/head.h"

#include <algorithm>
#include <cmath>

namespace tandem::train {
namespace {

// A row divided by the temperature, and the log of its sum of exponentials.
template <typename T>
struct ScaledRow {
  const T* logits;
  std::int64_t size;
  T temperature;
  double normaliser = 0;

  ScaledRow(const T* row, std::int64_t columns, float t)
      : logits(row), size(columns), temperature(static_cast<T>(t)) {
    T largest = at(0);
    for (std::int64_t i = 1; i < size; ++i) largest = std::max(largest, at(i));
    double sum = 0;
    for (std::int64_t i = 0; i < size; ++i) sum += std::exp(static_cast<double>(at(i) - largest));
    normaliser = static_cast<double>(largest) + std::log(sum);
  }
  T at(std::int64_t i) const { return logits[i] / temperature; }
  double log_prob(std::int64_t i) const { return static_cast<double>(at(i)) - normaliser; }

  double entropy() const {
    double sum = 0;
    for (std::int64_t i = 0; i < size; ++i) sum -= std::exp(log_prob(i)) * log_prob(i);
    return sum;
  }
};

}  // namespace

template <typename T>
void score_tokens(ConstRows<T> logits, std::span<const TokenId> targets, float temperature,
                  std::span<TokenScore> scores) {
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    const auto i = static_cast<std::size_t>(t);
    const ScaledRow<T> row(logits.row(t), logits.columns, temperature);
    scores[i] = {static_cast<double>(static_cast<T>(row.log_prob(targets[i]))), row.entropy()};
  }
}

template <typename T>
void score_tokens_backward(ConstRows<T> logits, std::span<const TokenId> targets, float temperature,
                           std::span<const TokenScoreGradient> gradients, Rows<T> dlogits) {
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    const auto& gradient = gradients[static_cast<std::size_t>(t)];
    const TokenId target = targets[static_cast<std::size_t>(t)];
    const ScaledRow<T> row(logits.row(t), logits.columns, temperature);
    const double entropy = gradient.entropy == 0 ? 0 : row.entropy();
    for (std::int64_t i = 0; i < logits.columns; ++i) {
      const double log_p = row.log_prob(i);
      const double p = std::exp(log_p);
      double d = gradient.log_prob * ((i == target ? 1 : 0) - p);
      d -= gradient.entropy * p * (log_p + entropy);
      dlogits.row(t)[i] = static_cast<T>(d / temperature);
    }
  }
}

#define INSTANTIATE(T)                                                               \
  template void score_tokens(ConstRows<T>, std::span<const TokenId>, float,          \
                             std::span<TokenScore>);                                 \
  template void score_tokens_backward(ConstRows<T>, std::span<const TokenId>, float, \
                                      std::span<const TokenScoreGradient>, Rows<T>);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tandem::train
