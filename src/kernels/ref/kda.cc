#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ref/delta_rule.h"
#include "kernels/ref/operators.h"
#include "kernels/ref/plain.h"

namespace tandem::reference {
namespace {

// The inputs of one sequence, oldest first: what the window holds, then this step's rows. [*,
// channels]
std::vector<double> inputs_with_window(const ShortConvArgs& args, const KdaSequence& sequence) {
  const std::int64_t channels = args.x.columns;
  const std::int64_t kept = args.width - 1;
  std::vector<double> all = zeros((kept + sequence.rows) * channels);
  for (std::int64_t i = 0; i < kept * channels; ++i) {
    all[i] = load(sequence.window, args.window_dtype, i);
  }
  for (std::int64_t r = 0; r < sequence.rows; ++r) {
    const float* x = args.x.row(sequence.first_row + r);
    for (std::int64_t c = 0; c < channels; ++c) {
      const float input = args.window_dtype == DType::kBF16 ? to_float(to_bf16(x[c])) : x[c];
      all[(kept + r) * channels + c] = input;
    }
  }
  return all;
}

// 1 / sqrt(sum(x^2) + eps)
double inverse_length(const float* x, std::int64_t size) {
  double sum = 0;
  for (std::int64_t i = 0; i < size; ++i) sum += static_cast<double>(x[i]) * x[i];
  return 1.0 / std::sqrt(sum + kKdaNormEps);
}

// One head of a run of rows, in double and normalised.
struct HeadTokens {
  std::vector<double> q, k, v, g, beta;

  HeadTokens(const KdaArgs& args, std::int64_t head, std::int64_t first_row, std::int64_t rows) {
    const std::int64_t d = args.head_dim;
    const std::int64_t inner = args.heads * d;
    const double query_scale = 1.0 / std::sqrt(static_cast<double>(d));
    for (std::int64_t t = first_row; t < first_row + rows; ++t) {
      const float* q_row = args.qkv.row(t) + head * d;
      const float* k_row = q_row + inner;
      const float* v_row = k_row + inner;
      const double q_scale = inverse_length(q_row, d) * query_scale;
      const double k_scale = inverse_length(k_row, d);
      for (std::int64_t i = 0; i < d; ++i) {
        q.push_back(q_row[i] * q_scale);
        k.push_back(k_row[i] * k_scale);
        v.push_back(v_row[i]);
        g.push_back(args.decay.row(t)[head * d + i]);
      }
      beta.push_back(args.beta.row(t)[head]);
    }
  }

  DeltaRuleTokens view(std::int64_t d) const {
    return {static_cast<std::int64_t>(beta.size()),
            d,
            q.data(),
            k.data(),
            v.data(),
            g.data(),
            beta.data()};
  }
};

using DeltaRule = void (*)(const DeltaRuleTokens&, double* state, double* o);

// Runs a head of a sequence in pieces of `piece` tokens; between pieces the state is rounded to
// fp32, as it is between steps.
void run_head(const KdaArgs& args, const KdaSequence& sequence, std::int64_t head,
              std::int64_t piece, DeltaRule rule) {
  const std::int64_t d = args.head_dim;
  float* stored = sequence.state + head * d * d;
  std::vector<double> state = zeros(d * d);
  std::vector<double> o = zeros(piece * d);
  for (std::int64_t first = 0; first < sequence.rows; first += piece) {
    const std::int64_t rows = std::min(piece, sequence.rows - first);
    const std::int64_t first_row = sequence.first_row + first;
    const HeadTokens tokens(args, head, first_row, rows);
    std::copy(stored, stored + d * d, state.begin());
    rule(tokens.view(d), state.data(), o.data());
    for (std::int64_t i = 0; i < d * d; ++i) stored[i] = static_cast<float>(state[i]);
    for (std::int64_t r = 0; r < rows; ++r) {
      float* out = args.o.row(first_row + r) + head * d;
      for (std::int64_t i = 0; i < d; ++i) out[i] = static_cast<float>(o[r * d + i]);
    }
  }
}

void run(const KdaArgs& args, std::int64_t piece, DeltaRule rule) {
  for (std::int64_t s = 0; s < args.sequence_count; ++s) {
    for (std::int64_t h = 0; h < args.heads; ++h) run_head(args, args.sequences[s], h, piece, rule);
  }
}

double softplus(double u) { return u > 20 ? u : std::log1p(std::exp(u)); }

}  // namespace

void short_conv(const ShortConvArgs& args, ThreadTeam&) noexcept {
  const std::int64_t channels = args.x.columns;
  for (std::int64_t s = 0; s < args.sequence_count; ++s) {
    const KdaSequence& sequence = args.sequences[s];
    const std::vector<double> all = inputs_with_window(args, sequence);
    for (std::int64_t r = 0; r < sequence.rows; ++r) {
      for (std::int64_t c = 0; c < channels; ++c) {
        double sum = 0;
        for (std::int64_t j = 0; j < args.width; ++j) {
          sum += args.weight[j * channels + c] * all[(r + j) * channels + c];
        }
        args.y.row(sequence.first_row + r)[c] = static_cast<float>(silu(sum));
      }
    }
    for (std::int64_t i = 0; i < (args.width - 1) * channels; ++i) {
      store(sequence.window, args.window_dtype, i, all[sequence.rows * channels + i]);
    }
  }
}

void kda_gates(const KdaGatesArgs& args, ThreadTeam&) noexcept {
  const std::int64_t d = args.decay.columns / args.heads;
  for (std::int64_t t = 0; t < args.decay.rows; ++t) {
    for (std::int64_t i = 0; i < args.decay.columns; ++i) {
      float& decay = args.decay.row(t)[i];
      const double rate = args.head_rate[i / d];
      const double u = static_cast<double>(decay) + args.dt_bias[i];
      const double g =
          args.lower_bound ? *args.lower_bound * sigmoid(rate * u) : -rate * softplus(u);
      decay = static_cast<float>(g);
    }
    for (std::int64_t h = 0; h < args.heads; ++h) {
      float& beta = args.beta.row(t)[h];
      beta = static_cast<float>(sigmoid(beta));
    }
  }
}

// One token a piece: rounding the state at every token makes the result independent of cuts.
void kda_recurrent(const KdaArgs& args, ThreadTeam&) noexcept {
  run(args, 1, delta_rule_recurrent);
}

void kda_chunked(const KdaArgs& args, ThreadTeam&) noexcept {
  run(args, kDeltaRuleChunk, delta_rule_chunk);
}

}  // namespace tandem::reference
