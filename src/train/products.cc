#include "train/products.h"

#include <algorithm>

namespace tandem::train {
namespace {

constexpr std::int64_t kTileRows = 4;
constexpr std::int64_t kTileColumns = 16;

// a(m, k) = data[m * row_stride + k * step]: a matrix or its transpose.
template <typename T>
struct LeftOperand {
  const T* data;
  std::int64_t row_stride;
  std::int64_t step;
};

// c[rows, columns] += a[rows, depth] b[depth, columns] for one tile, sums kept in registers.
template <typename T>
void full_tile(LeftOperand<T> a, std::int64_t depth, const T* b, std::int64_t b_stride, T* c,
               std::int64_t c_stride) {
  T sum[kTileRows][kTileColumns];
  for (std::int64_t m = 0; m < kTileRows; ++m) {
    std::copy_n(c + m * c_stride, kTileColumns, sum[m]);
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    const T* row = b + k * b_stride;
    for (std::int64_t m = 0; m < kTileRows; ++m) {
      const T factor = a.data[m * a.row_stride + k * a.step];
      for (std::int64_t n = 0; n < kTileColumns; ++n) sum[m][n] += factor * row[n];
    }
  }
  for (std::int64_t m = 0; m < kTileRows; ++m) {
    std::copy_n(sum[m], kTileColumns, c + m * c_stride);
  }
}

template <typename T>
void edge_tile(LeftOperand<T> a, std::int64_t rows, std::int64_t columns, std::int64_t depth,
               const T* b, std::int64_t b_stride, T* c, std::int64_t c_stride) {
  for (std::int64_t m = 0; m < rows; ++m) {
    for (std::int64_t k = 0; k < depth; ++k) {
      const T factor = a.data[m * a.row_stride + k * a.step];
      for (std::int64_t n = 0; n < columns; ++n) {
        c[m * c_stride + n] += factor * b[k * b_stride + n];
      }
    }
  }
}

template <typename T>
void add_product(LeftOperand<T> a, std::int64_t depth, ConstRows<T> b, Rows<T> c,
                 ThreadTeam& team) {
  const std::int64_t tiles = (c.rows + kTileRows - 1) / kTileRows;
  team.parallel_for(tiles, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const std::int64_t first = tile * kTileRows;
      const std::int64_t rows = std::min(kTileRows, c.rows - first);
      const LeftOperand<T> part{a.data + first * a.row_stride, a.row_stride, a.step};
      for (std::int64_t n = 0; n < c.columns; n += kTileColumns) {
        const std::int64_t columns = std::min(kTileColumns, c.columns - n);
        if (rows == kTileRows && columns == kTileColumns) {
          full_tile(part, depth, b.data + n, b.stride, c.row(first) + n, c.stride);
        } else {
          edge_tile(part, rows, columns, depth, b.data + n, b.stride, c.row(first) + n, c.stride);
        }
      }
    }
  });
}

}  // namespace

template <typename T>
void add_forward_product(ConstRows<T> x, ConstRows<T> w, Rows<T> y, ThreadTeam& team) {
  team.parallel_for(x.rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t o = 0; o < w.rows; ++o) {
        double sum = 0;
        for (std::int64_t i = 0; i < w.columns; ++i) {
          sum += static_cast<double>(x.row(t)[i]) * static_cast<double>(w.row(o)[i]);
        }
        y.row(t)[o] += static_cast<T>(sum);
      }
    }
  });
}

template <typename T>
void add_input_gradient(ConstRows<T> dy, ConstRows<T> w, Rows<T> dx, ThreadTeam& team) {
  add_product<T>({dy.data, dy.stride, 1}, w.rows, w, dx, team);
}

template <typename T>
void add_weight_gradient(ConstRows<T> dy, ConstRows<T> x, Rows<T> dw, ThreadTeam& team) {
  add_product<T>({dy.data, 1, dy.stride}, x.rows, x, dw, team);
}

#define INSTANTIATE(T)                                                                 \
  template void add_forward_product(ConstRows<T>, ConstRows<T>, Rows<T>, ThreadTeam&); \
  template void add_input_gradient(ConstRows<T>, ConstRows<T>, Rows<T>, ThreadTeam&);  \
  template void add_weight_gradient(ConstRows<T>, ConstRows<T>, Rows<T>, ThreadTeam&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tandem::train
