// Routed experts of kMxfp4 in tiles: the CPU's kernels round activations to two 8-bit digits.
#include <cmath>
#include <deque>

#include "kernels/cpu/quantized.h"
#include "kernels/kernel_testing.h"

namespace tandem::testing {
namespace {

using cpu::QuantizedGroup;
using cpu::QuantizedRows;

// What quantize_row has to give, plainly.
std::vector<QuantizedGroup> plainly_quantized(const float* x, std::int64_t columns) {
  std::vector<QuantizedGroup> groups;
  for (std::int64_t first = 0; first < columns; first += kMxfp4GroupSize) {
    float largest = 0;
    for (int i = 0; i < kMxfp4GroupSize; ++i) largest = std::fmax(largest, std::fabs(x[first + i]));
    const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
    QuantizedGroup group{};
    int total = 0;
    for (int i = 0; i < kMxfp4GroupSize; ++i) {
      const float value = x[first + i] * inverse;
      const float high = std::nearbyint(value);
      const float low = std::fmin(std::nearbyint((value - high) * 256), 127.0f);
      group.high[i / 4][i % 4] = static_cast<std::int8_t>(high);
      group.low[i / 4][i % 4] = static_cast<std::int8_t>(low);
      total += static_cast<int>(256 * high + low);
    }
    group.scale = largest / (2 * 256 * 127);
    group.offset = -12 * total;
    groups.push_back(group);
  }
  return groups;
}

// In steps of twice the group's scale.
int steps(const QuantizedGroup& group, std::int64_t i) {
  return 256 * group.high[i / 4][i % 4] + group.low[i / 4][i % 4];
}

double value_of(const QuantizedGroup& group, std::int64_t i) {
  return 2.0 * static_cast<double>(group.scale) * steps(group, i);
}

class QuantizedTest : public KernelTest {
 protected:
  // An instruction set whose multiply-add rounds once.
  bool fuses() const { return GetParam().targets != HWY_SCALAR; }

  // [rows][groups]
  std::vector<QuantizedGroup> quantized(const Rows& x) const {
    const std::int64_t groups = x.columns() / kMxfp4GroupSize;
    GuardedVector<QuantizedGroup> all(static_cast<std::size_t>(x.rows() * groups));
    for (std::int64_t r = 0; r < x.rows(); ++r) {
      cpu::quantize_row(x.view().row(r), x.columns(), all.data() + r * groups);
    }
    return {all.begin(), all.end()};
  }
};

// The CPU's kernels only: the reference rounds nothing.
std::vector<KernelChoice> cpu_choices() {
  std::vector<KernelChoice> choices = kernel_choices();
  std::erase_if(choices, [](const KernelChoice& choice) { return choice.targets == 0; });
  return choices;
}
INSTANTIATE_TEST_SUITE_P(, QuantizedTest, ::testing::ValuesIn(cpu_choices()), kernel_choice_name);

TEST_P(QuantizedTest, rows_become_two_digits_by_the_largest_of_each_group) {
  for (std::int64_t columns : {32, 96, 512}) {
    Rows x = Rows::random(random_, 3, columns);
    for (std::int64_t i = 0; i < 32; ++i) x.at(1, i) = 0;
    for (std::int64_t i = 0; i < 32; ++i) x.at(2, i) *= 1e30f;
    const auto actual = quantized(x);
    for (std::int64_t r = 0; r < 3; ++r) {
      const auto expected = plainly_quantized(x.view().row(r), columns);
      EXPECT_EQ(std::memcmp(expected.data(), &actual[static_cast<std::size_t>(r) * expected.size()],
                            expected.size() * sizeof(QuantizedGroup)),
                0)
          << "row " << r << " of " << columns;
    }
  }
}

TEST_P(QuantizedTest, what_is_no_number_makes_no_number) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    Rows x = Rows::random(random_, 1, 64);
    x.at(0, random_.integer(32, 63)) = bad;
    const auto groups = quantized(x);
    EXPECT_TRUE(std::isfinite(groups[0].scale));
    EXPECT_TRUE(std::isnan(groups[1].scale)) << bad;
  }
}

// The bits are those of the formula in the header, for every code and any place in a matrix.
TEST_P(QuantizedTest, products_are_exact_within_a_group_and_add_in_order) {
  for (std::int64_t outputs : {1, 16, 40}) {
    for (std::int64_t inputs : {32, 160}) {
      for (std::int64_t rows : {1, 2, 5, 13, 25}) {
        SCOPED_TRACE(fmt::format("[{}, {}], {} rows", outputs, inputs, rows));
        RandomWeight w(random_, DType::kMxfp4, outputs, inputs);
        const WeightMatrix tiles = w.tiled();
        auto groups = quantized(Rows::random(random_, rows + 3, inputs));
        std::vector<std::int32_t> order;
        for (std::int64_t i = 0; i < rows; ++i) {
          order.push_back(static_cast<std::int32_t>(random_.integer(0, rows + 2)));
        }
        Rows y(rows, outputs);
        cpu::multiply_quantized(tiles, {groups.data(), inputs}, order.data(), 0, outputs, y);
        ASSERT_TRUE(y.written_exactly());
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t o = 0; o < outputs; ++o) {
            const QuantizedGroup* x = &groups[order[i] * (inputs / 32)];
            float sum = 0;
            double magnitude = 0;
            for (std::int64_t g = 0; g < inputs / 32; ++g) {
              double total = 0;  // of whole numbers
              const double scale = std::ldexp(1.0, w.view().scale[o * (inputs / 32) + g] - 127);
              for (int k = 0; k < 32; ++k) {
                total += 2 * w.at(o, g * 32 + k) / scale * steps(x[g], k);
              }
              const float factor = static_cast<float>(scale) * x[g].scale;
              sum = std::fma(static_cast<float>(total), factor, sum);
              magnitude += std::fabs(total * factor);
            }
            const double bound = fuses() ? 0 : 8 * kUnit * magnitude;
            ASSERT_NEAR(y.at(i, o), sum, bound) << "row " << i << " output " << o;
          }
        }
      }
    }
  }
}

double activation(const ActivationSpec& spec, double gate, double up) {
  const double sigmoid = 1 / (1 + std::exp(-gate));
  if (spec.kind == GatedActivation::kSwiGlu) return gate * sigmoid * up;
  return spec.gate_beta * std::tanh(gate / spec.gate_beta) * sigmoid * spec.up_beta *
         std::tanh(up / spec.up_beta);
}

// Against sums in double over the rounded inputs; hidden values may be off by a step or two each.
TEST_P(QuantizedTest, experts_sum_rounded_products) {
  for (std::int64_t width : {32, 64, 160}) {
    for (std::int64_t intermediate : {32, 96}) {
      for (std::int64_t tokens : {1, 7, 40}) {
        SCOPED_TRACE(
            fmt::format("width {} intermediate {} tokens {}", width, intermediate, tokens));
        constexpr std::int64_t kExperts = 5, kTopK = 2;
        const ActivationSpec spec = {GatedActivation::kSituGlu, 4, 25};
        std::deque<RandomWeight> storage;
        std::vector<ExpertWeights> experts;
        for (std::int64_t e = 0; e < kExperts; ++e) {
          const auto add = [&](std::int64_t outputs, std::int64_t inputs) {
            const double scale = 1 / std::sqrt(static_cast<double>(inputs));
            return storage.emplace_back(random_, DType::kMxfp4, outputs, inputs, scale).tiled();
          };
          const WeightMatrix gate = add(intermediate, width), up = add(intermediate, width);
          experts.push_back({gate, up, add(width, intermediate)});
        }
        const Rows x = Rows::random(random_, tokens, width);
        std::vector<std::int32_t> ids;
        for (std::int64_t t = 0; t < tokens; ++t) {
          const std::int64_t first = random_.integer(0, kExperts - 2);
          ids.push_back(static_cast<std::int32_t>(first));
          ids.push_back(static_cast<std::int32_t>(random_.integer(first + 1, kExperts - 1)));
        }
        const GuardedVector<float> weights = random_.vector(tokens * kTopK);
        Rows y(tokens, width);
        Rows workspace(1, experts_workspace_floats(tokens, kTopK, width, intermediate));
        kernels().experts({x, experts.data(), kExperts, intermediate, ids.data(), weights.data(),
                           kTopK, spec, workspace.view().data, y},
                          team_);
        ASSERT_TRUE(y.written_exactly());

        for (std::int64_t t = 0; t < tokens; ++t) {
          const auto rounded = plainly_quantized(x.view().row(t), width);
          std::vector<double> expected(static_cast<std::size_t>(width)), bound = expected;
          for (std::int64_t k = t * kTopK; k < (t + 1) * kTopK; ++k) {
            const auto weight = [&](std::int64_t i) -> const RandomWeight& {
              return storage[3 * ids[k] + i];
            };
            std::vector<double> hidden;
            for (std::int64_t i = 0; i < intermediate; ++i) {
              double gate = 0, up = 0;
              for (std::int64_t l = 0; l < width; ++l) {
                const double value = value_of(rounded[l / 32], l % 32);
                gate += weight(0).at(i, l) * value;
                up += weight(1).at(i, l) * value;
              }
              hidden.push_back(activation(spec, gate, up));
            }
            for (std::int64_t i = 0; i < intermediate; ++i) {
              double largest = 0;
              for (std::int64_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) {
                largest = std::max(largest, std::fabs(hidden[j]));
              }
              for (std::int64_t o = 0; o < width; ++o) {
                const double factor = weights[k] * weight(2).at(o, i);
                expected[o] += factor * hidden[i];
                bound[o] += std::fabs(factor) * largest * (2.0 / (256 * 127));
              }
            }
          }
          for (std::int64_t o = 0; o < width; ++o) {
            ASSERT_NEAR(y.at(t, o), expected[o], bound[o]) << "token " << t << " output " << o;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem::testing
