#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ref/operators.h"
#include "kernels/ref/plain.h"
#include "tensor/weight_tiles.h"

namespace tandem::reference {
namespace {

// W_UK and W_UV of one head: [nope + value, latent].
std::vector<float> head_weights(const MlaAttentionArgs& args, std::int64_t head) {
  const std::int64_t per_head = args.dims.nope + args.dims.value;
  std::vector<float> weights(static_cast<std::size_t>(per_head * args.dims.latent));
  for (std::int64_t i = 0; i < per_head; ++i) {
    widen_row(args.kv_b, head * per_head + i, &weights[i * args.dims.latent]);
  }
  return weights;
}

// The absorbed query beside the shared part, so that a score is one product with a latent row.
std::vector<double> absorb(const MlaDims& dims, const std::vector<float>& weights, const float* q) {
  std::vector<double> query = zeros(dims.latent + dims.pe);
  for (std::int64_t n = 0; n < dims.nope; ++n) {
    for (std::int64_t l = 0; l < dims.latent; ++l) {
      query[l] += static_cast<double>(q[n]) * weights[n * dims.latent + l];
    }
  }
  for (std::int64_t p = 0; p < dims.pe; ++p) query[dims.latent + p] = q[dims.nope + p];
  return query;
}

// ctx = sum_j p_j c_j over latent rows [0, visible).
std::vector<double> attend(const MlaAttentionArgs& args, const PagedRows& latent,
                           std::int64_t visible, const std::vector<double>& query) {
  const MlaDims& dims = args.dims;
  const std::int64_t width = dims.latent + dims.pe;
  const auto row_bytes = width * static_cast<std::int64_t>(element_bytes(args.row_dtype));
  const double scale = 1.0 / std::sqrt(static_cast<double>(dims.nope + dims.pe));
  std::vector<double> weight = zeros(visible);
  for (std::int64_t j = 0; j < visible; ++j) {
    const std::byte* row = latent.row(j, row_bytes);
    for (std::int64_t i = 0; i < width; ++i) weight[j] += query[i] * load(row, args.row_dtype, i);
    weight[j] *= scale;
  }
  const double largest = *std::max_element(weight.begin(), weight.end());
  double sum = 0;
  for (double& p : weight) sum += (p = std::exp(p - largest));
  std::vector<double> context = zeros(dims.latent);
  for (std::int64_t j = 0; j < visible; ++j) {
    const std::byte* row = latent.row(j, row_bytes);
    for (std::int64_t l = 0; l < dims.latent; ++l) {
      context[l] += weight[j] / sum * load(row, args.row_dtype, l);
    }
  }
  return context;
}

}  // namespace

void mla_store(const MlaStoreArgs& args, ThreadTeam&) noexcept {
  const MlaDims& dims = args.dims;
  const std::int64_t width = dims.latent + dims.pe;
  const auto row_bytes = width * static_cast<std::int64_t>(element_bytes(args.row_dtype));
  for (std::int64_t s = 0; s < args.sequence_count; ++s) {
    const MlaSequence& sequence = args.sequences[s];
    for (std::int64_t r = 0; r < sequence.rows; ++r) {
      const float* x = args.compressed.row(sequence.first_row + r);
      std::byte* row = sequence.latent.row(sequence.start + r, row_bytes);
      const double scale = inverse_rms(x, dims.latent, args.eps);
      for (std::int64_t i = 0; i < width; ++i) {
        store(row, args.row_dtype, i, i < dims.latent ? x[i] * scale * args.norm_weight[i] : x[i]);
      }
    }
  }
}

void mla_attention(const MlaAttentionArgs& args, ThreadTeam&) noexcept {
  const MlaDims& dims = args.dims;
  for (std::int64_t h = 0; h < dims.heads; ++h) {
    const std::vector<float> weights = head_weights(args, h);
    const float* w_uv = weights.data() + dims.nope * dims.latent;
    for (std::int64_t s = 0; s < args.sequence_count; ++s) {
      const MlaSequence& sequence = args.sequences[s];
      for (std::int64_t r = 0; r < sequence.rows; ++r) {
        const std::int64_t t = sequence.first_row + r;
        const auto query = absorb(dims, weights, args.q.row(t) + h * (dims.nope + dims.pe));
        const auto context = attend(args, sequence.latent, sequence.start + r + 1, query);
        for (std::int64_t v = 0; v < dims.value; ++v) {
          double sum = 0;
          for (std::int64_t l = 0; l < dims.latent; ++l) {
            sum += static_cast<double>(w_uv[v * dims.latent + l]) * context[l];
          }
          args.o.row(t)[h * dims.value + v] = static_cast<float>(sum);
        }
      }
    }
  }
}

}  // namespace tandem::reference
