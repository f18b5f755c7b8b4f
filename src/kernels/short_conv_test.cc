#include <cmath>

#include "kernels/kernel_testing.h"

namespace tandem::testing {
namespace {

constexpr DType kWindowTypes[] = {DType::kF32, DType::kBF16};

// The window of one request, [width-1, channels] of its dtype, at an address aligned to its element
// only.
class Window {
 public:
  Window(DType dtype, std::int64_t elements)
      : dtype_(dtype), bytes_(static_cast<std::size_t>(elements + 2) * element_bytes(dtype)) {}

  std::byte* data() { return bytes_.data() + element_bytes(dtype_); }
  float get(std::int64_t i) const {
    const std::byte* at = bytes_.data() + static_cast<std::size_t>(i + 1) * element_bytes(dtype_);
    if (dtype_ == DType::kBF16) {
      BF16 value;
      std::memcpy(&value, at, sizeof(value));
      return to_float(value);
    }
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  bool operator==(const Window&) const = default;

 private:
  DType dtype_;
  GuardedVector<std::byte> bytes_;
};

// Requests that go through one convolution, from the first token of each on.
struct Conv {
  DType dtype;
  std::int64_t width, channels;
  GuardedVector<float> weight;
  std::vector<Rows> x;  // one a request, [length, channels]

  Conv(Random& random, DType window_dtype, std::int64_t width_, std::int64_t channels_,
       const std::vector<std::int64_t>& lengths)
      : dtype(window_dtype),
        width(width_),
        channels(channels_),
        weight(random.vector(width_ * channels_)) {
    for (std::int64_t length : lengths) x.push_back(Rows::random(random, length, channels_));
  }

  float input(std::int64_t request, std::int64_t t, std::int64_t c) const {
    if (t < 0) return 0;
    const float value = x[request].at(t, c);
    return dtype == DType::kBF16 ? to_float(to_bf16(value)) : value;
  }

  std::vector<Window> fresh_windows() const {
    return std::vector<Window>(x.size(), Window(dtype, (width - 1) * channels));
  }

  // One step over `pieces`; returns its output rows in the order of the pieces.
  Rows step(const KernelSet& kernels, const std::vector<Piece>& pieces,
            std::vector<Window>& windows, ThreadTeam& team) const {
    std::vector<KdaSequence> sequences;
    std::int64_t rows = 0;
    for (const Piece& piece : pieces) rows += piece.rows;
    Rows in(rows, channels);
    rows = 0;
    for (const Piece& piece : pieces) {
      sequences.push_back(
          {.first_row = rows, .rows = piece.rows, .window = windows[piece.request].data()});
      for (std::int64_t t = piece.first; t < piece.first + piece.rows; ++t, ++rows) {
        for (std::int64_t c = 0; c < channels; ++c) in.at(rows, c) = x[piece.request].at(t, c);
      }
    }
    Rows y(rows, channels);
    kernels.short_conv({in, weight.data(), width, dtype, sequences.data(),
                        static_cast<std::int64_t>(sequences.size()), y},
                       team);
    return y;
  }
};

using ShortConvTest = KernelTest;
TANDEM_FOR_ALL_KERNELS(ShortConvTest);

TEST_P(ShortConvTest, convolves_causally_from_zeros_then_applies_silu) {
  for (DType dtype : kWindowTypes) {
    for (std::int64_t width : {1, 2, 4, 5}) {
      for (std::int64_t channels : {1, 3, 8, 48, 100}) {
        for (std::int64_t length : {1, 2, 3, 9}) {
          SCOPED_TRACE(fmt::format("{} width {} channels {} length {}", to_string(dtype), width,
                                   channels, length));
          const Conv conv(random_, dtype, width, channels, {length});
          std::vector<Window> windows = conv.fresh_windows();
          const Rows y = conv.step(kernels(), {{0, 0, length}}, windows, team_);
          ASSERT_TRUE(y.written_exactly());
          const auto sum = [&](auto t, auto c, bool magnitude) {
            double total = 0;
            for (std::int64_t j = 0; j < width; ++j) {
              const double term = static_cast<double>(conv.weight[j * channels + c]) *
                                  conv.input(0, t - width + 1 + j, c);
              total += magnitude ? std::fabs(term) : term;
            }
            return total;
          };
          const auto expected = [&](auto t, auto c) {
            const double z = sum(t, c, false);
            return z / (1 + std::exp(-z));
          };
          // The slope of SiLU stays below 1.1; the rest is the sigmoid's own error.
          ASSERT_TRUE(near(y, expected, [&](auto t, auto c) {
            return kUnit * (1.1 * static_cast<double>(width) * sum(t, c, true) +
                            16 * std::fabs(expected(t, c)));
          }));
          for (std::int64_t i = 0; i < (width - 1) * channels; ++i) {
            const std::int64_t t = length - width + 1 + i / channels;
            ASSERT_EQ(windows[0].get(i), conv.input(0, t, i % channels)) << "window " << i;
          }
        }
      }
    }
  }
}

TEST_P(ShortConvTest, cuts_and_companions_change_no_bit) {
  ThreadTeam one(1);
  for (DType dtype : kWindowTypes) {
    for (std::int64_t channels : {5, 300}) {
      const std::vector<std::int64_t> lengths = {1, 2, 30, 100};
      const Conv conv(random_, dtype, 4, channels, lengths);
      std::vector<Rows> whole;
      std::vector<Window> last = conv.fresh_windows();
      for (std::int64_t r = 0; r < 4; ++r) {
        whole.push_back(conv.step(kernels(), {{r, 0, lengths[r]}}, last, one));
      }
      for (ThreadTeam* team : {&one, &team_}) {
        std::vector<Window> windows = conv.fresh_windows();
        for (const std::vector<Piece>& pieces : random_steps(random_, lengths)) {
          wake(*team);
          const Rows y = conv.step(kernels(), pieces, windows, *team);
          std::int64_t row = 0;
          for (const Piece& piece : pieces) {
            for (std::int64_t t = piece.first; t < piece.first + piece.rows; ++t, ++row) {
              ASSERT_TRUE(
                  same_bits(y.view().row(row), whole[piece.request].view().row(t), channels))
                  << "request " << piece.request << " token " << t;
            }
          }
        }
        ASSERT_EQ(windows, last);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::testing
