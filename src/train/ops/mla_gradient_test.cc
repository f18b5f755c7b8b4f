// MLA attention: gradients against central differences in fp64, the expanded form against the
// absorbed one and against the reference kernel.
#include "kernels/kernel_set.h"
#include "train/ops/gradient_check.h"
#include "train/ops/mla.h"
#include "train/products.h"

namespace tandem::train {
namespace {

constexpr MlaDims kDims{.heads = 3, .nope = 4, .pe = 3, .value = 5, .latent = 6};

struct MlaGradients : testing::Test {
  ThreadTeam team{2};
  RandomNumbers random{17};
  std::vector<PackedSequence> sequences = {{0, 1}, {1, 9}, {10, 4}};
  std::int64_t rows = 14;
};

TEST_F(MlaGradients, expanded_attention) {
  auto q = random.matrix<double>(rows, 21, 1.5);
  auto kv = random.matrix<double>(rows, 27, 1.2);
  auto pe = random.matrix<double>(rows, 3, 1.2);
  const auto r = random.matrix<double>(rows, 15, 1);
  const auto loss = [&] {
    Owned<double> o(rows, 15);
    attention<double>(kDims, {q.view(), kv.view(), pe.view()}, sequences, o.view(), team);
    return weighted_sum(o.values, r.values);
  };
  Owned<double> dq(rows, 21), dkv(rows, 27), dpe(rows, 3);
  attention_backward<double>(kDims, {q.view(), kv.view(), pe.view()}, sequences, r.view(),
                             {dq.view(), dkv.view(), dpe.view()}, team);
  expect_gradient("q", q.values, dq.values, loss);
  expect_gradient("kv", kv.values, dkv.values, loss);
  expect_gradient("pe", pe.values, dpe.values, loss);
}

// Attention in absorbed form in fp64: scores and contexts in latent space.
std::vector<double> absorbed(ConstRows<double> q, ConstRows<double> latent, ConstRows<double> pe,
                             ConstRows<double> kv_b, std::span<const PackedSequence> sequences) {
  const MlaDims& d = kDims;
  std::vector<double> out(static_cast<std::size_t>(q.rows * d.heads * d.value));
  for (const PackedSequence& s : sequences) {
    for (std::int64_t t = s.first_row; t < s.first_row + s.rows; ++t) {
      for (std::int64_t h = 0; h < d.heads; ++h) {
        const double* query = q.row(t) + h * (d.nope + d.pe);
        std::vector<double> absorbed_query(static_cast<std::size_t>(d.latent));
        for (std::int64_t l = 0; l < d.latent; ++l) {
          for (std::int64_t n = 0; n < d.nope; ++n) {
            absorbed_query[l] += query[n] * kv_b.row(h * (d.nope + d.value) + n)[l];
          }
        }
        double total = 0;
        std::vector<double> context(static_cast<std::size_t>(d.latent));
        for (std::int64_t j = s.first_row; j <= t; ++j) {
          double score = 0;
          for (std::int64_t l = 0; l < d.latent; ++l) score += absorbed_query[l] * latent.row(j)[l];
          for (std::int64_t i = 0; i < d.pe; ++i) score += query[d.nope + i] * pe.row(j)[i];
          const double p = std::exp(score / std::sqrt(static_cast<double>(d.nope + d.pe)));
          total += p;
          for (std::int64_t l = 0; l < d.latent; ++l) context[l] += p * latent.row(j)[l];
        }
        for (std::int64_t v = 0; v < d.value; ++v) {
          double sum = 0;
          for (std::int64_t l = 0; l < d.latent; ++l) {
            sum += kv_b.row(h * (d.nope + d.value) + d.nope + v)[l] * context[l] / total;
          }
          out[(t * d.heads + h) * d.value + v] = sum;
        }
      }
    }
  }
  return out;
}

// What the trainer differentiates in expanded form is the gradient of the absorbed form, through
// the latent rows and kv_b.
TEST_F(MlaGradients, expanded_gradient_is_that_of_the_absorbed_form) {
  auto q = random.matrix<double>(rows, 21, 1.2);
  auto latent = random.matrix<double>(rows, 6, 1);
  auto pe = random.matrix<double>(rows, 3, 1);
  auto kv_b = random.matrix<double>(27, 6, 0.5);
  const auto r = random.matrix<double>(rows, 15, 1);
  const auto loss = [&] {
    return weighted_sum(absorbed(q.view(), latent.view(), pe.view(), kv_b.view(), sequences),
                        r.values);
  };
  Owned<double> kv(rows, 27);
  add_forward_product<double>(latent.view(), kv_b.view(), kv.view(), team);
  Owned<double> dq(rows, 21), dkv(rows, 27), dpe(rows, 3), dlatent(rows, 6), dkv_b(27, 6);
  attention_backward<double>(kDims, {q.view(), kv.view(), pe.view()}, sequences, r.view(),
                             {dq.view(), dkv.view(), dpe.view()}, team);
  add_input_gradient<double>(dkv.view(), kv_b.view(), dlatent.view(), team);
  add_weight_gradient<double>(dkv.view(), latent.view(), dkv_b.view(), team);
  expect_gradient("q", q.values, dq.values, loss);
  expect_gradient("latent", latent.values, dlatent.values, loss);
  expect_gradient("pe", pe.values, dpe.values, loss);
  expect_gradient("kv_b", kv_b.values, dkv_b.values, loss);
}

TEST_F(MlaGradients, forward_values_are_those_of_the_reference_kernel) {
  const auto q = random.matrix<float>(rows, 21, 1.2);
  const auto latent = random.matrix<float>(rows, 6, 1);
  const auto pe = random.matrix<float>(rows, 3, 1);
  const auto kv_b = random.matrix<float>(27, 6, 0.5);
  Owned<float> kv(rows, 27), ours(rows, 15), theirs(rows, 15);
  add_forward_product<float>(latent.view(), kv_b.view(), kv.view(), team);
  attention<float>(kDims, {q.view(), kv.view(), pe.view()}, sequences, ours.view(), team);

  Owned<float> stored(rows, 9);
  for (std::int64_t t = 0; t < rows; ++t) {
    std::copy_n(latent.view().row(t), 6, stored.view().row(t));
    std::copy_n(pe.view().row(t), 3, stored.view().row(t) + 6);
  }
  std::vector<std::byte*> pages;
  for (const PackedSequence& s : sequences) {
    pages.push_back(reinterpret_cast<std::byte*>(stored.view().row(s.first_row)));
  }
  std::vector<MlaSequence> kernel_sequences;
  for (std::size_t s = 0; s < 3; ++s) {
    kernel_sequences.push_back({sequences[s].first_row, sequences[s].rows, 0, {&pages[s], 64, 0}});
  }
  std::vector<float> workspace(static_cast<std::size_t>(mla_workspace_floats(rows, kDims)));
  reference_kernels().mla_attention({.q = q.view(),
                                     .kv_b = {DType::kF32, kv_b.values.data(), nullptr, 27, 6},
                                     .dims = kDims,
                                     .row_dtype = DType::kF32,
                                     .sequences = kernel_sequences.data(),
                                     .sequence_count = 3,
                                     .workspace = workspace.data(),
                                     .o = theirs.view()},
                                    team);
  EXPECT_LE(relative_error(ours.values, theirs.values), 1e-5);
}

}  // namespace
}  // namespace tandem::train
