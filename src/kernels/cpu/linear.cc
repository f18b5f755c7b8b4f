#include <algorithm>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products.h"

namespace tandem::cpu {
namespace {

// Rows of x that one task passes by a block of w: enough to pay for reading (and decoding) the
// block.
constexpr std::int64_t kTaskTokens = 64;
// Outputs of a task come in whole register tiles, and in whole tiles of the weight.
constexpr std::int64_t kTaskOutputs = 48;

// How one product is cut: a task is a block of outputs for up to kTaskTokens rows.
class Cut {
 public:
  Cut() = default;
  explicit Cut(const LinearArgs& args) : args_(&args) {
    token_blocks_ = (args.x.rows + kTaskTokens - 1) / kTaskTokens;
    const double output_ns = multiply_row_ns(args.w, std::min(args.x.rows, kTaskTokens));
    blocks_ = OutputBlocks(args.w.outputs, kTaskOutputs, output_ns);
    task_ns_ = output_ns * static_cast<double>(blocks_.size);
  }

  std::int64_t tasks() const { return token_blocks_ * blocks_.count(); }
  double ns() const { return task_ns_ * static_cast<double>(tasks()); }

  // Neighbouring tasks share the block of w.
  void run(std::int64_t task) const {
    const std::int64_t block = task / token_blocks_;
    const std::int64_t t = task % token_blocks_ * kTaskTokens;
    const std::int64_t rows = std::min(kTaskTokens, args_->x.rows - t);
    multiply_rows(args_->w, rows_of(args_->x, t, rows), blocks_.first(block), blocks_.last(block),
                  rows_of(args_->y, t, rows));
  }

 private:
  const LinearArgs* args_ = nullptr;
  std::int64_t token_blocks_ = 0;
  OutputBlocks blocks_;
  double task_ns_ = 0;
};

// More products are run in several fan-outs.
constexpr std::int64_t kMaxProducts = 8;

void run_together(const LinearArgs* products, std::int64_t count, ThreadTeam& team) {
  Cut cuts[kMaxProducts];
  std::int64_t tasks = 0;
  double ns = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    cuts[i] = Cut(products[i]);
    tasks += cuts[i].tasks();
    ns += cuts[i].ns();
  }
  if (tasks == 0) return;
  const auto body = [&](std::int64_t begin, std::int64_t end) {
    const Cut* cut = cuts;
    for (std::int64_t task = begin, first = 0; task < end; ++task) {
      while (task - first >= cut->tasks()) first += cut++->tasks();
      cut->run(task - first);
    }
  };
  parallel(team, tasks, grain_for(ns / static_cast<double>(tasks)), body);
}

}  // namespace

void linear(const LinearArgs& args, ThreadTeam& team) noexcept { run_together(&args, 1, team); }

void linears(const LinearsArgs& args, ThreadTeam& team) noexcept {
  for (std::int64_t i = 0; i < args.count; i += kMaxProducts) {
    run_together(args.products + i, std::min(kMaxProducts, args.count - i), team);
  }
}

void embed(const EmbedArgs& args, ThreadTeam&) noexcept {
  const std::int64_t width = args.table.inputs;
  for (std::int64_t t = 0; t < args.y.rows; ++t) {
    const std::int64_t first = args.ids[t] * width;
    float* y = args.y.row(t);
    if (args.table.dtype == DType::kF32) {
      std::copy_n(static_cast<const float*>(args.table.data) + first, width, y);
    } else {
      std::transform(static_cast<const BF16*>(args.table.data) + first,
                     static_cast<const BF16*>(args.table.data) + first + width, y,
                     [](BF16 v) { return to_float(v); });
    }
  }
}

}  // namespace tandem::cpu
