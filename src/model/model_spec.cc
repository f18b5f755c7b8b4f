#include "model/model_spec.h"

#include <algorithm>

namespace tandem {

std::int64_t ModelSpec::kda_layers() const {
  return std::count_if(layers.begin(), layers.end(),
                       [](const LayerSpec& layer) { return layer.is_kda(); });
}

std::int64_t ModelSpec::mla_layers() const {
  return static_cast<std::int64_t>(layers.size()) - kda_layers();
}

std::int64_t ModelSpec::bank_rows() const {
  return std::count_if(layers.begin(), layers.end(),
                       [](const LayerSpec& layer) { return layer.starts_block; });
}

}  // namespace tandem
