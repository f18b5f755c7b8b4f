// Whatever configuration is accepted describes a model that can be planned without overflow.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/config.h"
#include "model/memory_layout.h"

namespace {

void check_spec(const tandem::ModelSpec& spec) {
  using namespace tandem;
  CHECK(!spec.layers.empty() && spec.hidden > 0, "{} layers", spec.layers.size());
  CHECK(spec.kda_layers() + spec.mla_layers() == static_cast<std::int64_t>(spec.layers.size()),
        "{} and {} layers", spec.kda_layers(), spec.mla_layers());
  for (TokenId id : {spec.bos_id, spec.eos_id, spec.pad_id}) {
    CHECK(id >= 0 && id < spec.vocab_size, "token {} of {}", id, spec.vocab_size);
  }
  for (const LayerSpec& layer : spec.layers) {
    if (const auto* moe = std::get_if<MoeSpec>(&layer.ffn)) {
      CHECK(moe->top_k <= moe->top_groups * (moe->experts / moe->groups), "{} of {}", moe->top_k,
            moe->experts);
    }
  }
  for (const Precision precision : {Precision::kExact, Precision::kDefault}) {
    const MemoryLayout layout = memory_layout(spec, precision);
    CHECK(layout.total.state_bytes >= 0 && layout.total.row_bytes >= 0, "{} and {} bytes",
          layout.total.state_bytes, layout.total.row_bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto spec = parse_config(json, "config.json");
  if (spec) {
    check_spec(*spec);
  } else {
    CHECK(spec.error().message.find('\n') == std::string::npos, "a message of several lines");
  }
  const auto defaults = parse_generation_config(json, "generation_config.json");
  if (defaults && defaults->temperature) {
    CHECK(*defaults->temperature >= 0, "temperature {}", *defaults->temperature);
  }
  return 0;
}
