#include <algorithm>
#include <vector>

#include "kernels/ref/operators.h"
#include "kernels/ref/plain.h"

namespace tandem::reference {
namespace {

double score(const float* row, const float* query, std::int64_t size, double eps) {
  double sum = 0;
  for (std::int64_t d = 0; d < size; ++d) sum += static_cast<double>(row[d]) * query[d];
  return sum * inverse_rms(row, size, eps);
}

}  // namespace

void residual_mix(const ResidualMixArgs& args, ThreadTeam&) noexcept {
  const std::int64_t width = args.stream.columns;
  for (std::int64_t t = 0; t < args.stream.rows; ++t) {
    std::vector<const float*> rows;
    for (std::int64_t j = 0; j < args.bank_rows; ++j) rows.push_back(args.bank[j].row(t));
    rows.push_back(args.stream.row(t));

    std::vector<double> weight;
    for (const float* row : rows) weight.push_back(score(row, args.query, width, args.eps));
    const double largest = *std::max_element(weight.begin(), weight.end());
    double sum = 0;
    for (double& a : weight) sum += (a = std::exp(a - largest));

    for (std::int64_t d = 0; d < width; ++d) {
      double mixed = 0;
      for (std::size_t j = 0; j < rows.size(); ++j) mixed += weight[j] / sum * rows[j][d];
      args.y.row(t)[d] = static_cast<float>(mixed);
    }
  }
}

}  // namespace tandem::reference
