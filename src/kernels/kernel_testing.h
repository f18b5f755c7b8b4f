// Inputs, poisoned outputs and comparisons that the kernel tests share.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/operators.h"
#include "kernels/guarded_memory.h"
#include "kernels/kernel_set.h"
#include "tensor/mxfp4.h"
#include "tensor/weight_tiles.h"

namespace tandem::testing {

// Rounding error of one fp32 operation, relative to its result.
inline constexpr double kUnit = 0x1p-24;

// Every run draws fresh inputs; TANDEM_TEST_SEED repeats a failure.
inline std::uint64_t test_seed() {
  if (const char* seed = std::getenv("TANDEM_TEST_SEED")) return std::strtoull(seed, nullptr, 10);
  return std::random_device{}();
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  float normal(double scale = 1) { return static_cast<float>(scale * normal_(engine_)); }
  float uniform(double low, double high) {
    return static_cast<float>(std::uniform_real_distribution<double>(low, high)(engine_));
  }
  // In [low, high], both included.
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  GuardedVector<float> vector(std::int64_t size, double scale = 1, double mean = 0) {
    GuardedVector<float> values(static_cast<std::size_t>(size));
    for (float& value : values) value = static_cast<float>(mean) + normal(scale);
    return values;
  }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<double> normal_;
};

// A matrix with padding behind every row, at an address aligned to its element only. All of it is
// NaN until written, so that a read of padding or an element left out shows in a result.
class Rows {
 public:
  Rows(std::int64_t rows, std::int64_t columns, std::int64_t padding = 3)
      : rows_(rows), columns_(columns), stride_(columns + padding) {
    data_.assign(static_cast<std::size_t>(1 + rows * stride_), std::bit_cast<float>(kPoison));
  }
  static Rows random(Random& random, std::int64_t rows, std::int64_t columns, double scale = 1) {
    Rows out(rows, columns);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) out.at(r, c) = random.normal(scale);
    }
    return out;
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  float& at(std::int64_t r, std::int64_t c) { return data_[1 + r * stride_ + c]; }
  float at(std::int64_t r, std::int64_t c) const { return data_[1 + r * stride_ + c]; }
  Activations view() { return {data_.data() + 1, rows_, columns_, stride_}; }
  ConstActivations view() const { return {data_.data() + 1, rows_, columns_, stride_}; }
  operator Activations() { return view(); }
  operator ConstActivations() const { return view(); }

  // Rows `order[i]` of this, as row i of a new matrix.
  Rows select(const std::vector<std::int64_t>& order) const {
    Rows out(static_cast<std::int64_t>(order.size()), columns_);
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (std::int64_t c = 0; c < columns_; ++c) out.at(i, c) = at(order[i], c);
    }
    return out;
  }

  // Whether every element was written and the padding was not.
  ::testing::AssertionResult written_exactly() const {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(data_.size()); ++i) {
      const bool inside = i > 0 && (i - 1) % stride_ < columns_;
      const bool poisoned = std::bit_cast<std::uint32_t>(data_[i]) == kPoison;
      if (inside != poisoned) continue;
      return ::testing::AssertionFailure() << (inside ? "left out: row " : "padding written: row ")
                                           << (i - 1) / stride_ << " column " << (i - 1) % stride_;
    }
    return ::testing::AssertionSuccess();
  }

 private:
  static constexpr std::uint32_t kPoison = 0x7fc0dead;
  std::int64_t rows_, columns_, stride_;
  GuardedVector<float> data_;
};

// A weight of any dtype with its values in double. Its bytes are aligned to the element only.
class RandomWeight {
 public:
  RandomWeight(Random& random, DType dtype, std::int64_t outputs, std::int64_t inputs,
               double scale = 1)
      : dtype_(dtype), outputs_(outputs), inputs_(inputs) {
    if (dtype == DType::kMxfp4) {
      fill_packed(random, scale);
      return;
    }
    const std::size_t size = element_bytes(dtype);
    bytes_.resize(static_cast<std::size_t>(outputs * inputs + 1) * size);
    for (std::int64_t i = 0; i < outputs * inputs; ++i) {
      const float value = random.normal(scale);
      const BF16 narrow = to_bf16(value);
      values_.push_back(dtype == DType::kBF16 ? to_float(narrow) : value);
      const void* source = dtype == DType::kBF16 ? static_cast<const void*>(&narrow) : &value;
      std::memcpy(bytes_.data() + static_cast<std::size_t>(i + 1) * size, source, size);
    }
  }

  WeightMatrix view() const {
    const bool packed = dtype_ == DType::kMxfp4;
    return {dtype_, bytes_.data() + (packed ? 1 : element_bytes(dtype_)),
            packed ? scales_.data() + 1 : nullptr, outputs_, inputs_};
  }
  // The same in tiles, made anew at every call; of kBF16 or kMxfp4.
  WeightMatrix tiled() {
    const TiledBytes bytes = tiled_bytes(view());
    tiles_.assign(static_cast<std::size_t>(bytes.data), std::byte{0});
    tile_scales_.assign(static_cast<std::size_t>(bytes.scale), 0);
    return tile_weight(view(), tiles_.data(), tile_scales_.data());
  }
  double at(std::int64_t output, std::int64_t input) const {
    return values_[output * inputs_ + input];
  }

 private:
  // All sixteen codes are equally frequent; group scales spread over a factor of 8.
  void fill_packed(Random& random, double scale) {
    const std::int64_t elements = outputs_ * inputs_;
    bytes_.assign(static_cast<std::size_t>(elements / 2 + 1), 0);
    scales_.assign(1, 0);
    for (std::int64_t i = 0; i < elements; ++i) {
      if (i % kMxfp4GroupSize == 0) {
        const auto exponent = std::ilogb(scale) - 2 + random.integer(-2, 1);
        scales_.push_back(static_cast<std::uint8_t>(127 + exponent));
      }
      const std::int64_t code = random.integer(0, 15);
      bytes_[static_cast<std::size_t>(1 + i / 2)] |=
          static_cast<std::uint8_t>(code << (i % 2 == 0 ? 0 : 4));
      values_.push_back(
          std::ldexp(kE2m1Values[static_cast<std::size_t>(code)], scales_.back() - 127));
    }
    scales_.shrink_to_fit();
  }

  DType dtype_;
  std::int64_t outputs_, inputs_;
  GuardedVector<std::uint8_t> bytes_;
  GuardedVector<std::uint8_t> scales_;
  GuardedVector<std::byte> tiles_;
  GuardedVector<std::uint8_t> tile_scales_;
  std::vector<double> values_;
};

inline std::vector<DType> weight_dtypes(std::int64_t inputs) {
  std::vector<DType> dtypes = {DType::kBF16, DType::kF32};
  if (inputs % kMxfp4GroupSize == 0) dtypes.push_back(DType::kMxfp4);
  return dtypes;
}

inline bool same_bits(const float* a, const float* b, std::int64_t size) {
  return std::memcmp(a, b, static_cast<std::size_t>(size) * sizeof(float)) == 0;
}

// Where `actual` leaves the bound |actual - expected| <= bound, both functions of (row, column).
template <typename Expected, typename Bound>
::testing::AssertionResult near(const Rows& actual, Expected expected, Bound bound) {
  for (std::int64_t r = 0; r < actual.rows(); ++r) {
    for (std::int64_t c = 0; c < actual.columns(); ++c) {
      const double want = expected(r, c);
      const double limit = bound(r, c);
      if (std::fabs(actual.at(r, c) - want) <= limit) continue;
      return ::testing::AssertionFailure()
             << fmt::format("row {} column {}: {:.9g}, expected {:.9g} within {:.3g}", r, c,
                            actual.at(r, c), want, limit);
    }
  }
  return ::testing::AssertionSuccess();
}

// Returns when every thread of the team is awake and looking for work, so that the next operator is
// really shared out, even on a busy machine.
inline void wake(ThreadTeam& team) {
  std::atomic<int> awake{0};
  team.parallel_for(team.threads(), 1, [&](std::int64_t, std::int64_t) {
    ++awake;
    while (awake < team.threads()) std::this_thread::yield();
  });
}

// A row's bits may depend neither on its companions, nor on its place, nor on the number of
// threads. `run(order, team)` computes the rows of inputs [0, rows) named by `order`.
// A kernel keeps small work on one thread, so some case of every operator must take long enough.
template <typename Run>
void expect_rows_independent(Random& random, std::int64_t rows, Run run) {
  ThreadTeam one(1);
  ThreadTeam two(2);
  std::vector<std::int64_t> everything(static_cast<std::size_t>(rows));
  std::iota(everything.begin(), everything.end(), 0);
  const Rows all = run(everything, one);
  ASSERT_TRUE(all.written_exactly());
  for (std::int64_t size : {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{4},
                            rows, random.integer(5, 2 * rows)}) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(size));
    for (std::int64_t& row : order) row = random.integer(0, rows - 1);
    for (ThreadTeam* team : {&one, &two}) {
      wake(*team);
      const Rows part = run(order, *team);
      for (std::int64_t i = 0; i < size; ++i) {
        ASSERT_TRUE(same_bits(part.view().row(i), all.view().row(order[i]), all.columns()))
            << "row " << order[i] << " at place " << i << " of " << size << ", " << team->threads()
            << " threads";
      }
    }
  }
}

// Rows [first, first + rows) of a request, taken in one step.
struct Piece {
  std::int64_t request = 0;
  std::int64_t first = 0;
  std::int64_t rows = 0;
};

// A random way to serve requests of the given lengths: every step takes some of the requests, in
// random order, a random number of rows each.
inline std::vector<std::vector<Piece>> random_steps(Random& random,
                                                    const std::vector<std::int64_t>& lengths) {
  std::vector<std::vector<Piece>> steps;
  std::vector<std::int64_t> done(lengths.size(), 0);
  while (done != lengths) {
    std::vector<Piece> step;
    for (std::size_t r = 0; r < lengths.size(); ++r) {
      const std::int64_t left = lengths[r] - done[r];
      if (left == 0 || random.integer(0, 3) == 0) continue;
      const std::int64_t rows = random.integer(1, random.integer(1, left));
      const auto place = step.begin() + random.integer(0, static_cast<std::int64_t>(step.size()));
      step.insert(place, {static_cast<std::int64_t>(r), done[r], rows});
      done[r] += rows;
    }
    if (!step.empty()) steps.push_back(step);
  }
  return steps;
}

// A kernel set, and for which of the instruction sets that it was compiled.
struct KernelChoice {
  std::string name;
  const KernelSet& (*set)();
  std::int64_t targets = 0;  // of Highway
};

// The reference, and the CPU's kernels for every instruction set that they were compiled for and
// that this processor has, each alone.
inline std::vector<KernelChoice> kernel_choices() {
  std::vector<KernelChoice> choices = {{"ref", reference_kernels}};
  for (std::int64_t rest = cpu::instruction_sets(); rest != 0; rest &= rest - 1) {
    const std::int64_t target = rest & -rest;
    choices.push_back({fmt::format("cpu_{}", hwy::TargetName(target)), cpu_kernels, target});
  }
  return choices;
}

// A test over every kernel set, with fresh inputs and two threads.
class KernelTest : public ::testing::TestWithParam<KernelChoice> {
 protected:
  KernelTest() { hwy::GetChosenTarget().Update(GetParam().targets); }
  ~KernelTest() override { hwy::GetChosenTarget().DeInit(); }

  const KernelSet& kernels() const { return GetParam().set(); }

 private:
  std::uint64_t seed_ = test_seed();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, fmt::format("TANDEM_TEST_SEED={}", seed_)};

 protected:
  Random random_{seed_};
  ThreadTeam team_{2};
};

inline std::string kernel_choice_name(const ::testing::TestParamInfo<KernelChoice>& info) {
  return info.param.name;
}

// The cases of a suite, once for every kernel set.
#define TANDEM_FOR_ALL_KERNELS(Suite)                                                         \
  INSTANTIATE_TEST_SUITE_P(, Suite, ::testing::ValuesIn(::tandem::testing::kernel_choices()), \
                           ::tandem::testing::kernel_choice_name)

}  // namespace tandem::testing
