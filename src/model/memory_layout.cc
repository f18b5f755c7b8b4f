#include "model/memory_layout.h"

namespace tandem {
namespace {

constexpr std::int64_t kLineBytes = 64;

std::int64_t round_up_to_line(std::int64_t bytes) {
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

}  // namespace

MemoryLayout memory_layout(const ModelSpec& spec, Precision precision) {
  MemoryLayout layout;
  layout.cache_dtype = precision == Precision::kExact ? DType::kF32 : DType::kBF16;
  const auto cache_bytes = static_cast<std::int64_t>(element_bytes(layout.cache_dtype));
  for (const LayerSpec& layer : spec.layers) {
    LayerMemory memory;
    if (const auto* kda = std::get_if<KdaSpec>(&layer.attention)) {
      memory.state_offset_bytes = layout.total.state_bytes;
      layout.total.state_bytes += round_up_to_line(kda->heads * kda->head_dim * kda->head_dim *
                                                   static_cast<std::int64_t>(sizeof(float)));
      memory.window_offset_bytes = layout.total.state_bytes;
      layout.total.state_bytes +=
          round_up_to_line((kda->conv_width - 1) * 3 * kda->inner() * cache_bytes);
    } else {
      memory.row_bytes = std::get<MlaSpec>(layer.attention).row_elements() * cache_bytes;
      memory.row_prefix_bytes = layout.total.row_bytes;
      layout.total.row_bytes += memory.row_bytes;
    }
    layout.layers.push_back(memory);
  }
  return layout;
}

}  // namespace tandem
