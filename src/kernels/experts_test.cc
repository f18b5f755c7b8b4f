#include <cmath>
#include <deque>

#include "kernels/kernel_testing.h"

namespace tandem::testing {
namespace {

const ActivationSpec kActivations[] = {{GatedActivation::kSwiGlu},
                                       {GatedActivation::kSituGlu, 4, 25}};

double activation(const ActivationSpec& spec, double gate, double up) {
  const double sigmoid = 1 / (1 + std::exp(-gate));
  if (spec.kind == GatedActivation::kSwiGlu) return gate * sigmoid * up;
  return spec.gate_beta * std::tanh(gate / spec.gate_beta) * sigmoid * spec.up_beta *
         std::tanh(up / spec.up_beta);
}

// The experts of a block, and tokens with their choices.
struct Block {
  std::int64_t width, intermediate, experts, top_k;
  std::deque<RandomWeight> storage;  // gate, up, down of each expert
  std::vector<ExpertWeights> views;
  Rows x;
  std::vector<std::int32_t> ids;
  GuardedVector<float> weights;
  ActivationSpec spec;

  // The same block with its weights in tiles.
  void tile() {
    for (std::size_t e = 0; e < views.size(); ++e) {
      views[e] = {storage[3 * e].tiled(), storage[3 * e + 1].tiled(), storage[3 * e + 2].tiled()};
    }
  }

  Block(Random& random, DType dtype, std::int64_t width_, std::int64_t intermediate_,
        std::int64_t experts_, std::int64_t top_k_, std::int64_t tokens)
      : width(width_),
        intermediate(intermediate_),
        experts(experts_),
        top_k(top_k_),
        x(Rows::random(random, tokens, width_)),
        weights(random.vector(tokens * top_k_)),
        spec(kActivations[random.integer(0, 1)]) {
    for (std::int64_t e = 0; e < experts; ++e) {
      const auto add = [&](std::int64_t outputs, std::int64_t inputs) {
        const double scale = 1 / std::sqrt(static_cast<double>(inputs));
        return storage.emplace_back(random, dtype, outputs, inputs, scale).view();
      };
      const WeightMatrix gate = add(intermediate, width), up = add(intermediate, width);
      views.push_back({gate, up, add(width, intermediate)});
    }
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::int64_t next = 0;  // ascending and distinct, as the router leaves them
      for (std::int64_t k = 0; k < top_k; ++k) {
        next = random.integer(next, experts - top_k + k);
        ids.push_back(static_cast<std::int32_t>(next++));
      }
    }
  }

  Rows run(const KernelSet& kernels, const std::vector<std::int64_t>& order,
           ThreadTeam& team) const {
    std::vector<std::int32_t> some_ids;
    GuardedVector<float> some_weights;
    for (std::int64_t t : order) {
      for (std::int64_t k = 0; k < top_k; ++k) {
        some_ids.push_back(ids[t * top_k + k]);
        some_weights.push_back(weights[t * top_k + k]);
      }
    }
    const Rows in = x.select(order);
    Rows y(in.rows(), width);
    Rows workspace(1, experts_workspace_floats(in.rows(), top_k, width, intermediate));
    kernels.experts({in, views.data(), experts, intermediate, some_ids.data(), some_weights.data(),
                     top_k, spec, workspace.view().data, y},
                    team);
    for (std::int64_t i = 0; i < workspace.columns(); ++i) workspace.at(0, i) = 0;
    EXPECT_TRUE(workspace.written_exactly()) << "workspace overrun";
    return y;
  }

  // Row t in double, and for each element the sum of the magnitudes that its roundings scale with.
  void expect(std::int64_t t, std::vector<double>& value, std::vector<double>& magnitude) const {
    value.assign(static_cast<std::size_t>(width), 0);
    magnitude.assign(static_cast<std::size_t>(width), 0);
    for (std::int64_t k = t * top_k; k < (t + 1) * top_k; ++k) {
      const auto weight = [&](std::int64_t i) -> const RandomWeight& {
        return storage[3 * ids[k] + i];
      };
      const RandomWeight &w1 = weight(0), &w3 = weight(1), &w2 = weight(2);
      for (std::int64_t i = 0; i < intermediate; ++i) {
        double gate = 0, up = 0, gate_size = 0, up_size = 0;
        for (std::int64_t l = 0; l < width; ++l) {
          gate += w1.at(i, l) * x.at(t, l);
          up += w3.at(i, l) * x.at(t, l);
          gate_size += std::fabs(w1.at(i, l) * x.at(t, l));
          up_size += std::fabs(w3.at(i, l) * x.at(t, l));
        }
        const double h = activation(spec, gate, up);
        // Both branches have slopes of at most 1.1.
        const double size =
            std::fabs(h) + 1.3 * (gate_size * std::fabs(up) + up_size * std::fabs(gate));
        for (std::int64_t o = 0; o < width; ++o) {
          value[o] += weights[k] * w2.at(o, i) * h;
          magnitude[o] += std::fabs(weights[k] * w2.at(o, i)) * size;
        }
      }
    }
  }
};

std::vector<std::int64_t> all_rows(const Block& block) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(block.x.rows()));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void expect_matches(const KernelSet& kernels, const Block& block, ThreadTeam& team) {
  const Rows y = block.run(kernels, all_rows(block), team);
  ASSERT_TRUE(y.written_exactly());
  const double terms = static_cast<double>(block.width + block.intermediate);
  const double error = (16 + std::sqrt(terms)) * kUnit;
  for (std::int64_t t = 0; t < y.rows(); ++t) {
    std::vector<double> value, magnitude;
    block.expect(t, value, magnitude);
    for (std::int64_t o = 0; o < block.width; ++o) {
      ASSERT_NEAR(y.at(t, o), value[o], error * magnitude[o]) << "token " << t << " output " << o;
    }
  }
}

using ExpertsTest = KernelTest;
TANDEM_FOR_ALL_KERNELS(ExpertsTest);

TEST_P(ExpertsTest, sums_the_weighted_experts_of_each_token) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (std::int64_t width : {1, 7, 24, 33}) {
      for (std::int64_t intermediate : {1, 8, 19}) {
        for (std::int64_t tokens : {1, 2, 13}) {
          SCOPED_TRACE(fmt::format("{} width {} intermediate {} tokens {}", to_string(dtype), width,
                                   intermediate, tokens));
          const Block block(random_, dtype, width, intermediate, 6, random_.integer(1, 6), tokens);
          expect_matches(kernels(), block, team_);
        }
      }
    }
  }
}

TEST_P(ExpertsTest, packed_experts_match_their_decoded_values) {
  for (std::int64_t width : {32, 64, 160}) {
    for (std::int64_t intermediate : {32, 96}) {
      const Block block(random_, DType::kMxfp4, width, intermediate, 9, 4, 7);
      SCOPED_TRACE(fmt::format("width {} intermediate {}", width, intermediate));
      expect_matches(kernels(), block, team_);
    }
  }
}

TEST_P(ExpertsTest, experts_in_tiles_match_their_values) {
  for (std::int64_t width : {7, 33, 64}) {
    for (std::int64_t intermediate : {1, 19, 96}) {
      Block block(random_, DType::kBF16, width, intermediate, 9, 4, 17);
      block.tile();
      SCOPED_TRACE(fmt::format("width {} intermediate {}", width, intermediate));
      expect_matches(kernels(), block, team_);
    }
  }
}

// One expert takes every token, another is chosen by none and has no weights to read.
TEST_P(ExpertsTest, uneven_choices_are_fine_and_unchosen_experts_are_not_read) {
  Block block(random_, DType::kBF16, 24, 16, 4, 2, 30);
  for (std::int64_t t = 0; t < 30; ++t) {
    block.ids[2 * t] = 1;
    block.ids[2 * t + 1] = t == 17 ? 2 : 3;
  }
  block.views[0] = {};
  expect_matches(kernels(), block, team_);
}

TEST_P(ExpertsTest, a_token_has_the_same_bits_in_any_company) {
  for (DType dtype : {DType::kBF16, DType::kF32, DType::kMxfp4}) {
    for (const bool tiled : {false, true}) {
      if (tiled && dtype == DType::kF32) continue;
      Block block(random_, dtype, 64, 96, 8, 3, 40);
      if (tiled) block.tile();
      SCOPED_TRACE(fmt::format("{}{}", to_string(dtype), tiled ? " tiles" : ""));
      expect_rows_independent(random_, 40, [&](const auto& order, ThreadTeam& team) {
        return block.run(kernels(), order, team);
      });
    }
  }
}

// The products are those of `linear`, bit for bit.
TEST_P(ExpertsTest, one_expert_of_weight_one_is_a_feed_forward_block) {
  for (DType dtype : {DType::kBF16, DType::kF32, DType::kMxfp4}) {
    Block block(random_, dtype, 64, 96, 1, 1, 5);
    block.weights.assign(5, 1.0f);
    const Rows y = block.run(kernels(), all_rows(block), team_);
    Rows gate(5, 96), up(5, 96), down(5, 64);
    kernels().linear({block.x, block.views[0].gate, gate}, team_);
    kernels().linear({block.x, block.views[0].up, up}, team_);
    kernels().gated_activation({gate, up, block.spec, gate}, team_);
    kernels().linear({gate, block.views[0].down, down}, team_);
    for (std::int64_t t = 0; t < 5; ++t) {
      EXPECT_TRUE(same_bits(y.view().row(t), down.view().row(t), 64)) << to_string(dtype);
    }
  }
}

}  // namespace
}  // namespace tandem::testing
