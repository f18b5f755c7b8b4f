#include <vector>

#include "kernels/ref/operators.h"
#include "kernels/ref/plain.h"
#include "tensor/weight_tiles.h"

namespace tandem::reference {

void linear(const LinearArgs& args, ThreadTeam&) noexcept {
  std::vector<float> weight(static_cast<std::size_t>(args.w.inputs));
  for (std::int64_t o = 0; o < args.w.outputs; ++o) {
    widen_row(args.w, o, weight.data());
    for (std::int64_t t = 0; t < args.x.rows; ++t) {
      const float* x = args.x.row(t);
      double sum = 0;
      for (std::int64_t i = 0; i < args.w.inputs; ++i) sum += static_cast<double>(weight[i]) * x[i];
      args.y.row(t)[o] = static_cast<float>(sum);
    }
  }
}

void linears(const LinearsArgs& args, ThreadTeam& team) noexcept {
  for (std::int64_t i = 0; i < args.count; ++i) linear(args.products[i], team);
}

void embed(const EmbedArgs& args, ThreadTeam&) noexcept {
  for (std::int64_t t = 0; t < args.y.rows; ++t) widen_row(args.table, args.ids[t], args.y.row(t));
}

}  // namespace tandem::reference
