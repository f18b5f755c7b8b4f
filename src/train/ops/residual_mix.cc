#include "train/ops/residual_mix.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tandem::train {
namespace {

// What the softmax over one token's rows needs: inverse rms, score and share of each.
struct MixShares {
  std::vector<double> rho, score, share;

  template <typename T>
  void compute(std::span<const ConstRows<T>> rows, std::int64_t t, const float* query, float eps) {
    const auto size = rows.front().columns;
    rho.clear();
    score.clear();
    share.clear();
    for (const ConstRows<T>& view : rows) {
      const T* v = view.row(t);
      double squares = 0, product = 0;
      for (std::int64_t i = 0; i < size; ++i) {
        squares += static_cast<double>(v[i]) * v[i];
        product += static_cast<double>(v[i]) * query[i];
      }
      rho.push_back(1.0 / std::sqrt(squares / static_cast<double>(size) + eps));
      score.push_back(product * rho.back());
    }
    const double largest = *std::max_element(score.begin(), score.end());
    double sum = 0;
    for (double s : score) sum += share.emplace_back(std::exp(s - largest));
    for (double& p : share) p /= sum;
  }
};

}  // namespace

template <typename T>
void residual_mix(std::span<const ConstRows<T>> rows, const float* query, float eps, Rows<T> y) {
  MixShares shares;
  for (std::int64_t t = 0; t < y.rows; ++t) {
    shares.compute(rows, t, query, eps);
    for (std::int64_t i = 0; i < y.columns; ++i) {
      double mixed = 0;
      for (std::size_t j = 0; j < rows.size(); ++j) mixed += shares.share[j] * rows[j].row(t)[i];
      y.row(t)[i] = static_cast<T>(mixed);
    }
  }
}

template <typename T>
void residual_mix_backward(std::span<const ConstRows<T>> rows, const float* query, float eps,
                           ConstRows<T> dy, std::span<const Rows<T>> drows, T* dquery,
                           ThreadTeam& team) {
  const std::int64_t size = dy.columns;
  // Gradient of every score, kept for the query's gradient, which is summed in order of tokens.
  const std::size_t n = rows.size();
  std::vector<double> dscore_rho(static_cast<std::size_t>(dy.rows) * n);
  team.parallel_for(dy.rows, 8, [&](std::int64_t begin, std::int64_t end) {
    MixShares shares;
    std::vector<double> dshare(n);
    for (std::int64_t t = begin; t < end; ++t) {
      shares.compute(rows, t, query, eps);
      const T* dy_row = dy.row(t);
      double mean = 0;
      for (std::size_t j = 0; j < n; ++j) {
        dshare[j] = 0;
        for (std::int64_t i = 0; i < size; ++i) {
          dshare[j] += static_cast<double>(dy_row[i]) * rows[j].row(t)[i];
        }
        mean += shares.share[j] * dshare[j];
      }
      for (std::size_t j = 0; j < n; ++j) {
        const double share = shares.share[j];
        const double rho = shares.rho[j];
        const double dscore = share * (dshare[j] - mean);
        const double pull = rho * shares.score[j] / static_cast<double>(size);
        const T* v = rows[j].row(t);
        T* dv = drows[j].row(t);
        for (std::int64_t i = 0; i < size; ++i) {
          dv[i] += static_cast<T>(share * dy_row[i] + dscore * rho * (query[i] - v[i] * pull));
        }
        dscore_rho[static_cast<std::size_t>(t) * n + j] = dscore * rho;
      }
    }
  });
  if (dquery == nullptr) return;
  for (std::int64_t t = 0; t < dy.rows; ++t) {
    for (std::size_t j = 0; j < n; ++j) {
      const double factor = dscore_rho[static_cast<std::size_t>(t) * n + j];
      const T* v = rows[j].row(t);
      for (std::int64_t i = 0; i < size; ++i) dquery[i] += static_cast<T>(factor * v[i]);
    }
  }
}

#define INSTANTIATE(T)                                                                     \
  template void residual_mix(std::span<const ConstRows<T>>, const float*, float, Rows<T>); \
  template void residual_mix_backward(std::span<const ConstRows<T>>, const float*, float,  \
                                      ConstRows<T>, std::span<const Rows<T>>, T*, ThreadTeam&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tandem::train
