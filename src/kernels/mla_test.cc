#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/kernel_testing.h"

namespace tandem::testing {
namespace {

constexpr DType kRowTypes[] = {DType::kF32, DType::kBF16};
constexpr std::int64_t kLayerOffsetBytes = 20;

float element(const std::byte* row, DType dtype, std::int64_t i) {
  if (dtype == DType::kBF16) {
    BF16 value;
    std::memcpy(&value, row + 2 * i, sizeof(value));
    return to_float(value);
  }
  float value;
  std::memcpy(&value, row + 4 * i, sizeof(value));
  return value;
}

// The latent pages of one request in one layer. All bytes are 0xff, a NaN of either dtype, until
// written; another layer's rows stand before and behind.
class Pages {
 public:
  Pages(Random& random, std::int64_t tokens, std::int64_t page_tokens, std::int64_t row_bytes)
      : page_tokens_(page_tokens), row_bytes_(row_bytes), used_bytes_(page_tokens * row_bytes) {
    const std::int64_t count = (tokens + page_tokens - 1) / page_tokens;
    memory_.assign(static_cast<std::size_t>(count * page_bytes()), std::byte{0xff});
    for (std::int64_t p = 0; p < count; ++p) {  // in no particular order
      const auto place = order_.begin() + random.integer(0, p);
      order_.insert(place, p);
    }
    for (std::int64_t p : order_) pages_.push_back(memory_.data() + p * page_bytes());
  }

  PagedRows view() { return {pages_.data(), page_tokens_, kLayerOffsetBytes}; }
  const std::byte* row(std::int64_t token) { return view().row(token, row_bytes_); }

  bool neighbours_untouched() const {
    for (const std::byte* page : pages_) {
      for (std::int64_t i = 0; i < page_bytes(); ++i) {
        const bool ours = i >= kLayerOffsetBytes && i < kLayerOffsetBytes + used_bytes_;
        if (!ours && page[i] != std::byte{0xff}) return false;
      }
    }
    return true;
  }

 private:
  std::int64_t page_bytes() const { return kLayerOffsetBytes + used_bytes_ + 12; }

  std::int64_t page_tokens_, row_bytes_, used_bytes_;
  GuardedVector<std::byte> memory_;
  std::vector<std::int64_t> order_;
  std::vector<std::byte*> pages_;
};

// Requests that attend, each from its first token on.
struct Attention {
  MlaDims dims;
  DType row_dtype;
  GuardedVector<float> norm_weight;
  RandomWeight kv_b;
  std::vector<Rows> q, compressed;
  float eps = 1e-3f;

  Attention(Random& random, const MlaDims& shape, DType rows, DType weights,
            const std::vector<std::int64_t>& lengths, double query_scale = 1)
      : dims(shape),
        row_dtype(rows),
        norm_weight(random.vector(shape.latent, 0.3, 1)),
        kv_b(random, weights, shape.heads * (shape.nope + shape.value), shape.latent,
             1 / std::sqrt(static_cast<double>(shape.latent))) {
    for (std::int64_t length : lengths) {
      q.push_back(Rows::random(random, length, dims.heads * (dims.nope + dims.pe), query_scale));
      compressed.push_back(Rows::random(random, length, dims.latent + dims.pe));
    }
  }

  std::int64_t row_bytes() const {
    return (dims.latent + dims.pe) * static_cast<std::int64_t>(element_bytes(row_dtype));
  }
  std::vector<Pages> fresh_pages(Random& random, std::int64_t page_tokens) const {
    std::vector<Pages> pages;
    for (const Rows& rows : q) pages.emplace_back(random, rows.rows(), page_tokens, row_bytes());
    return pages;
  }

  // Stores and attends in one step over `pieces`; returns output rows in the order of the pieces.
  Rows step(const KernelSet& kernels, const std::vector<Piece>& pieces, std::vector<Pages>& pages,
            ThreadTeam& team) const {
    std::vector<MlaSequence> sequences;
    std::int64_t rows = 0;
    for (const Piece& piece : pieces) {
      sequences.push_back({rows, piece.rows, piece.first, pages[piece.request].view()});
      rows += piece.rows;
    }
    const auto gather = [&](const std::vector<Rows>& source) {
      Rows out(rows, source[0].columns());
      std::int64_t row = 0;
      for (const Piece& piece : pieces) {
        for (std::int64_t t = piece.first; t < piece.first + piece.rows; ++t, ++row) {
          const float* from = source[piece.request].view().row(t);
          std::copy(from, from + out.columns(), &out.at(row, 0));
        }
      }
      return out;
    };
    const auto count = static_cast<std::int64_t>(sequences.size());
    const Rows c = gather(compressed), queries = gather(q);
    kernels.mla_store({c, norm_weight.data(), eps, dims, row_dtype, sequences.data(), count}, team);
    Rows workspace(1, mla_workspace_floats(rows, dims));
    Rows o(rows, dims.heads * dims.value);
    kernels.mla_attention(
        {queries, kv_b.view(), dims, row_dtype, sequences.data(), count, workspace.view().data, o},
        team);
    for (std::int64_t i = 0; i < workspace.columns(); ++i) workspace.at(0, i) = 0;
    EXPECT_TRUE(workspace.written_exactly()) << "workspace overrun";
    return o;
  }
};

// Attention in expanded form, in double, over the rows as stored: keys and values per head, no
// absorption.
class Expanded {
 public:
  Expanded(const Attention& in, std::int64_t request, Pages& pages) : in_(in), request_(request) {
    const std::int64_t tokens = in.q[request].rows();
    for (std::int64_t j = 0; j < tokens; ++j) {
      std::vector<double> row;
      for (std::int64_t i = 0; i < in.dims.latent + in.dims.pe; ++i) {
        row.push_back(element(pages.row(j), in.row_dtype, i));
      }
      rows_.push_back(row);
    }
  }

  // [value] of one head for token t, with the sum of magnitudes behind each and the largest
  // score's.
  struct Output {
    std::vector<double> value, magnitude;
    double score_magnitude = 0;
  };
  Output attend(std::int64_t t, std::int64_t h) const {
    const MlaDims& dims = in_.dims;
    const double scale = 1 / std::sqrt(static_cast<double>(dims.nope + dims.pe));
    Output out{std::vector<double>(static_cast<std::size_t>(dims.value)),
               std::vector<double>(static_cast<std::size_t>(dims.value))};
    std::vector<double> p;
    for (std::int64_t j = 0; j <= t; ++j) {
      double score = 0, magnitude = 0;
      for (std::int64_t n = 0; n < dims.nope + dims.pe; ++n) {
        const double query = in_.q[request_].at(t, h * (dims.nope + dims.pe) + n);
        const auto [key, size] = n < dims.nope ? project(h, n, j) : shared(n - dims.nope, j);
        score += query * key;
        magnitude += std::fabs(query) * size;
      }
      p.push_back(score * scale);
      out.score_magnitude = std::max(out.score_magnitude, magnitude * scale);
    }
    const double largest = *std::max_element(p.begin(), p.end());
    double total = 0;
    for (double& weight : p) total += (weight = std::exp(weight - largest));
    for (std::int64_t j = 0; j <= t; ++j) {
      for (std::int64_t v = 0; v < dims.value; ++v) {
        const auto [value, size] = project(h, dims.nope + v, j);
        out.value[v] += p[j] / total * value;
        out.magnitude[v] += p[j] / total * size;
      }
    }
    return out;
  }

 private:
  std::pair<double, double> shared(std::int64_t i, std::int64_t j) const {
    const double key = rows_[j][in_.dims.latent + i];
    return {key, std::fabs(key)};
  }
  // Row `n` of a head's kv_b times c_j, and the sum of its terms' magnitudes.
  std::pair<double, double> project(std::int64_t h, std::int64_t n, std::int64_t j) const {
    double sum = 0, magnitude = 0;
    for (std::int64_t l = 0; l < in_.dims.latent; ++l) {
      const double term = in_.kv_b.at(h * (in_.dims.nope + in_.dims.value) + n, l) * rows_[j][l];
      sum += term;
      magnitude += std::fabs(term);
    }
    return {sum, magnitude};
  }

  const Attention& in_;
  std::int64_t request_;
  std::vector<std::vector<double>> rows_;
};

using MlaTest = KernelTest;
TANDEM_FOR_ALL_KERNELS(MlaTest);

const MlaDims kShapes[] = {{1, 1, 1, 1, 1},
                           {2, 5, 3, 7, 9},
                           {10, 16, 4, 8, 24},
                           {2, 24, 16, 32, 64},
                           {1, 128, 64, 128, 512}};

TEST_P(MlaTest, stores_the_normed_latent_and_the_shared_key_as_is) {
  for (const MlaDims& dims : kShapes) {
    for (DType dtype : kRowTypes) {
      const Attention in(random_, dims, dtype, DType::kBF16, {6});
      std::vector<Pages> pages = in.fresh_pages(random_, 4);
      in.step(kernels(), {{0, 0, 6}}, pages, team_);
      ASSERT_TRUE(pages[0].neighbours_untouched());
      for (std::int64_t t = 0; t < 6; ++t) {
        double square = 0;
        for (std::int64_t i = 0; i < dims.latent; ++i)
          square += std::pow(in.compressed[0].at(t, i), 2);
        const double scale = 1 / std::sqrt(square / static_cast<double>(dims.latent) + in.eps);
        // fp32 arithmetic, then the rounding of the row's dtype.
        const double error = (8 + std::sqrt(static_cast<double>(dims.latent))) * kUnit +
                             (dtype == DType::kBF16 ? 0x1p-8 : 0);
        for (std::int64_t i = 0; i < dims.latent; ++i) {
          const double want = in.compressed[0].at(t, i) * scale * in.norm_weight[i];
          ASSERT_NEAR(element(pages[0].row(t), dtype, i), want, error * std::fabs(want));
        }
        for (std::int64_t i = dims.latent; i < dims.latent + dims.pe; ++i) {
          const float x = in.compressed[0].at(t, i);
          const float want = dtype == DType::kBF16 ? to_float(to_bf16(x)) : x;
          ASSERT_EQ(element(pages[0].row(t), dtype, i), want);
        }
      }
    }
  }
}

void expect_expanded(const KernelSet& kernels, const Attention& in, std::vector<Pages>& pages,
                     ThreadTeam& team) {
  const Rows o = in.step(kernels, {{0, 0, in.q[0].rows()}}, pages, team);
  ASSERT_TRUE(o.written_exactly());
  const Expanded expanded(in, 0, pages[0]);
  for (std::int64_t t = 0; t < o.rows(); ++t) {
    for (std::int64_t h = 0; h < in.dims.heads; ++h) {
      const auto want = expanded.attend(t, h);
      // Scores err by roundings of their terms, which moves the weights relatively; then two sums.
      const double terms = static_cast<double>(in.dims.latent + in.dims.nope + t);
      const double error = kUnit * (16 + 2 * std::sqrt(terms)) * (1 + want.score_magnitude);
      for (std::int64_t v = 0; v < in.dims.value; ++v) {
        ASSERT_NEAR(o.at(t, h * in.dims.value + v), want.value[v], error * want.magnitude[v])
            << "token " << t << " head " << h << " value " << v;
      }
    }
  }
}

TEST_P(MlaTest, absorbed_attention_equals_the_expanded_form) {
  for (const MlaDims& dims : kShapes) {
    for (DType rows : kRowTypes) {
      for (DType weights : weight_dtypes(dims.latent)) {
        SCOPED_TRACE(fmt::format("latent {}, rows {}, weights {}", dims.latent, to_string(rows),
                                 to_string(weights)));
        const Attention in(random_, dims, rows, weights, {dims.latent > 100 ? 3 : 20});
        std::vector<Pages> pages = in.fresh_pages(random_, 8);
        expect_expanded(kernels(), in, pages, team_);
      }
    }
  }
}

TEST_P(MlaTest, long_contexts_agree_with_the_expanded_form) {
  const Attention in(random_, {1, 6, 2, 3, 8}, DType::kF32, DType::kBF16, {270});
  std::vector<Pages> pages = in.fresh_pages(random_, 64);
  expect_expanded(kernels(), in, pages, team_);
}

// Scores of hundreds: exp without the largest subtracted would overflow.
TEST_P(MlaTest, sharp_attention_stays_finite) {
  const Attention in(random_, {2, 16, 8, 8, 32}, DType::kF32, DType::kF32, {40}, 300);
  std::vector<Pages> pages = in.fresh_pages(random_, 16);
  expect_expanded(kernels(), in, pages, team_);
}

// Every token scores above all before it, so that whatever was summed up must shrink again and
// again.
TEST_P(MlaTest, scores_that_keep_growing_keep_their_weights) {
  Attention in(random_, {2, 4, 2, 4, 8}, DType::kF32, DType::kF32, {140});
  for (std::int64_t t = 0; t < 140; ++t) {
    in.compressed[0].at(t, 8) = 2 * static_cast<float>(t);
    for (std::int64_t h = 0; h < 2; ++h) in.q[0].at(t, h * 6 + 4) = 1;
  }
  std::vector<Pages> pages = in.fresh_pages(random_, 16);
  expect_expanded(kernels(), in, pages, team_);
}

TEST_P(MlaTest, pages_cuts_and_companions_change_no_bit) {
  ThreadTeam one(1);
  const std::vector<std::int64_t> lengths = {1, 3, 70, 135};
  for (DType dtype : kRowTypes) {
    const Attention in(random_, {9, 16, 4, 16, 64}, dtype, DType::kBF16, lengths);
    std::vector<Rows> whole;
    std::vector<Pages> stored = in.fresh_pages(random_, 16);
    for (std::int64_t r = 0; r < 4; ++r) {
      whole.push_back(in.step(kernels(), {{r, 0, lengths[r]}}, stored, one));
    }
    for (std::int64_t page_tokens : {1, 16, 64}) {
      ThreadTeam& team = random_.integer(0, 1) == 0 ? one : team_;
      std::vector<Pages> pages = in.fresh_pages(random_, page_tokens);
      for (const std::vector<Piece>& pieces : random_steps(random_, lengths)) {
        wake(team);
        const Rows o = in.step(kernels(), pieces, pages, team);
        std::int64_t row = 0;
        for (const Piece& piece : pieces) {
          for (std::int64_t t = piece.first; t < piece.first + piece.rows; ++t, ++row) {
            ASSERT_TRUE(
                same_bits(o.view().row(row), whole[piece.request].view().row(t), o.columns()))
                << "request " << piece.request << " token " << t << ", pages of " << page_tokens
                << ", " << team.threads() << " threads";
            ASSERT_EQ(std::memcmp(pages[piece.request].row(t), stored[piece.request].row(t),
                                  static_cast<std::size_t>(in.row_bytes())),
                      0);
          }
        }
      }
      for (const Pages& request : pages) ASSERT_TRUE(request.neighbours_untouched());
    }
  }
}

}  // namespace
}  // namespace tandem::testing
