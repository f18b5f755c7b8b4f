#include "engine/weight_bytes.h"

#include "model/weight_table.h"
#include "tensor/mxfp4.h"

namespace tandem {
namespace {

constexpr auto kFloatBytes = static_cast<std::int64_t>(sizeof(float));

class ByteCounter final : public WeightVisitor {
 public:
  ByteCounter(const Checkpoint* checkpoint, bool packed_experts)
      : checkpoint_(checkpoint), packed_experts_(packed_experts) {}

  std::int64_t bytes() const { return bytes_; }

  void matrix(const std::string& name, std::int64_t outputs, std::int64_t inputs,
              WeightMatrix&) override {
    const TensorEntry* entry = find(name);
    const DType stored = entry != nullptr ? entry->dtype : DType::kBF16;
    const DType held = stored == DType::kF16 ? DType::kF32 : stored;
    bytes_ += outputs * inputs * static_cast<std::int64_t>(element_bytes(held));
  }

  void expert(const std::string& stem, std::int64_t outputs, std::int64_t inputs,
              WeightMatrix& to) override {
    if (is_packed(stem)) {
      bytes_ += outputs * ((inputs + 1) / 2 + (inputs + kMxfp4GroupSize - 1) / kMxfp4GroupSize);
    } else {
      matrix(stem + ".weight", outputs, inputs, to);
    }
  }

  void vector(const std::string&, std::int64_t size, WeightVector&) override {
    bytes_ += size * kFloatBytes;
  }
  void head_rate(const std::string&, const KdaSpec& spec, WeightVector&) override {
    bytes_ += spec.heads * kFloatBytes;
  }
  void conv(const std::string&, std::int64_t, const KdaSpec& spec, WeightVector&) override {
    bytes_ += spec.conv_width * spec.inner() * kFloatBytes;
  }
  void mix(const std::string&, std::int64_t size, WeightVector&) override {
    bytes_ += size * kFloatBytes;
  }

 private:
  const TensorEntry* find(const std::string& name) const {
    return checkpoint_ != nullptr ? checkpoint_->find(name) : nullptr;
  }
  bool is_packed(const std::string& stem) const {
    if (find(stem + ".weight_packed") != nullptr) return true;
    return packed_experts_ && find(stem + ".weight") == nullptr;
  }

  const Checkpoint* checkpoint_;
  const bool packed_experts_;
  std::int64_t bytes_ = 0;
};

}  // namespace

std::int64_t weight_bytes(const ModelSpec& spec, const Checkpoint* checkpoint) {
  ByteCounter counter(checkpoint, spec.packed_experts);
  ModelWeights nothing;  // the visit wants places to read into
  visit_weights(spec, nothing, counter);
  return counter.bytes();
}

}  // namespace tandem
