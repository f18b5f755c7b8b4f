#include "train/rl/merged_model.h"

#include <map>

#include "base/check.h"
#include "train/ops/linear.h"
#include "train/products.h"
#include "train/weight_walk.h"

namespace tandem::train {

MergedModel::MergedModel(const ModelSpec& spec, ModelWeights weights,
                         const LoraAdapter<float>& adapter, const KernelSet& kernels,
                         ThreadTeam& team) {
  std::map<std::string, std::size_t> index;
  for (const LoraModule& m : adapter.modules()) {
    index[m.path()] = merged_.size();
    auto& values = merged_.emplace_back(static_cast<std::size_t>(m.outputs() * m.inputs()));
    decode_weight<float>(*m.projection.weight, {values.data(), m.outputs(), m.inputs(), m.inputs()},
                         team);
  }
  std::size_t bound = 0;
  walk_weights(
      spec, weights,
      [&](const std::string& path, WeightMatrix& weight) {
        const auto found = index.find(path);
        if (found == index.end()) return;
        weight = {.dtype = DType::kF32,
                  .data = merged_[found->second].data(),
                  .outputs = weight.outputs,
                  .inputs = weight.inputs};
        ++bound;
      },
      [](const std::string&, WeightVector&) {});
  CHECK(bound == merged_.size(), "{} of {} adapted matrices found", bound, merged_.size());
  model_ = std::make_unique<Model>(spec, std::move(weights), Precision::kExact, kernels);
}

void MergedModel::update(LoraAdapter<float>& adapter, ThreadTeam& team) {
  for (std::size_t i = 0; i < merged_.size(); ++i) {
    const LoraModule& m = adapter.modules()[i];
    const Rows<float> values{merged_[i].data(), m.outputs(), m.inputs(), m.inputs()};
    decode_weight<float>(*m.projection.weight, values, team);
    const Rows<float> b = adapter.b(m);
    std::vector<float> scaled(b.data, b.data + b.rows * b.columns);
    for (float& value : scaled) value *= m.scale;
    add_input_gradient<float>({scaled.data(), b.rows, b.columns, b.columns}, adapter.a(m), values,
                              team);
  }
}

}  // namespace tandem::train
