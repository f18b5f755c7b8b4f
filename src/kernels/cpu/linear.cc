#include <algorithm>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products.h"

namespace tandem::cpu {
namespace {

// Rows of x that one task passes by a block of w: enough to pay for reading (and decoding) the
// block.
constexpr std::int64_t kTaskTokens = 64;
// Outputs of a task come in whole register tiles.
constexpr std::int64_t kTileOutputs = 24;

}  // namespace

// A task is a block of outputs for up to kTaskTokens rows.
void linear(const LinearArgs& args, ThreadTeam& team) noexcept {
  const std::int64_t tokens = args.x.rows;
  const std::int64_t outputs = args.w.outputs;
  const std::int64_t token_blocks = (tokens + kTaskTokens - 1) / kTaskTokens;
  const double row_ns = multiply_row_ns(args.w, std::min(tokens, kTaskTokens));
  const std::int64_t tiles = (grain_for(row_ns) + kTileOutputs - 1) / kTileOutputs;
  const std::int64_t block = std::min(outputs, tiles * kTileOutputs);
  const std::int64_t output_blocks = (outputs + block - 1) / block;
  const std::int64_t grain = grain_for(row_ns * static_cast<double>(block) + 1);

  // Neighbouring tasks share the block of w.
  const auto body = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t n = task / token_blocks * block;
      const std::int64_t t = task % token_blocks * kTaskTokens;
      const std::int64_t rows = std::min(kTaskTokens, tokens - t);
      multiply_rows(args.w, rows_of(args.x, t, rows), n, std::min(n + block, outputs),
                    rows_of(args.y, t, rows));
    }
  };
  parallel(team, output_blocks * token_blocks, grain, body);
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
