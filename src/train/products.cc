#include "train/products.h"

#include <algorithm>
#include <functional>

#include "train/products_fp32.h"

namespace tandem::train {
namespace {

// A range for another thread has at least so many multiply-adds, about ten microseconds of them.
constexpr double kMinTaskTerms = 200'000;

// a(m, k) = data[m * row_stride + k * step]: a matrix or its transpose.
template <typename T>
struct LeftOperand {
  const T* data;
  std::int64_t row_stride;
  std::int64_t step;
};

void add_rows(LeftOperand<float> a, std::int64_t depth, ConstRows<float> b, Rows<float> c) {
  add_product_fp32({.a = a.data,
                    .a_row = a.row_stride,
                    .a_step = a.step,
                    .b = b.data,
                    .b_row = b.stride,
                    .c = c.data,
                    .c_row = c.stride,
                    .rows = c.rows,
                    .columns = c.columns,
                    .depth = depth});
}

void add_rows(LeftOperand<double> a, std::int64_t depth, ConstRows<double> b, Rows<double> c) {
  for (std::int64_t m = 0; m < c.rows; ++m) {
    for (std::int64_t k = 0; k < depth; ++k) {
      const double factor = a.data[m * a.row_stride + k * a.step];
      const double* from = b.row(k);
      double* to = c.row(m);
      for (std::int64_t n = 0; n < c.columns; ++n) to[n] += factor * from[n];
    }
  }
}

// c[rows, columns] += a[rows, depth] b[depth, columns]
template <typename T>
void add_product(LeftOperand<T> a, std::int64_t depth, ConstRows<T> b, Rows<T> c,
                 ThreadTeam& team) {
  if (c.rows == 0) return;
  const double row_terms = static_cast<double>(std::max<std::int64_t>(depth * c.columns, 1));
  const std::int64_t grain = static_cast<std::int64_t>(kMinTaskTerms / row_terms) + 1;
  const auto body = [&](std::int64_t begin, std::int64_t end) {
    add_rows({a.data + begin * a.row_stride, a.row_stride, a.step}, depth, b,
             {c.row(begin), end - begin, c.columns, c.stride});
  };
  team.parallel_for(c.rows, grain, std::cref(body));
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
