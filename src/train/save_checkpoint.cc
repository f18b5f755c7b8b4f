// A trained model under the vendor's tensor names.
#include <map>

#include "model/safetensors_writer.h"
#include "model/weight_table.h"
#include "tensor/mxfp4.h"
#include "train/files.h"
#include "train/trainable_weights.h"

namespace tandem::train {
namespace {

// Takes every tensor that a checkpoint of the model has from the flat values.
class TensorMaker final : public WeightVisitor {
 public:
  TensorMaker(const std::vector<WeightSlot>& slots, const std::vector<float>& values,
              ExpertStorage experts)
      : values_(values), experts_(experts) {
    for (const WeightSlot& slot : slots) slots_[slot.path] = &slot;
  }

  void matrix(const std::string& name, std::int64_t outputs, std::int64_t inputs,
              WeightMatrix&) override {
    add_floats(name, {outputs, inputs}, of(module_of(name)));
  }
  void expert(const std::string& stem, std::int64_t outputs, std::int64_t inputs,
              WeightMatrix&) override {
    const std::span<const float> from = of(stem);
    if (experts_ == ExpertStorage::kF32) {
      return add_floats(stem + ".weight", {outputs, inputs}, from);
    }
    if (inputs % kMxfp4GroupSize != 0) {
      unpackable_ =
          fmt::format("{}: {} inputs; MXFP4 needs a multiple of {}", stem, inputs, kMxfp4GroupSize);
      return;
    }
    std::string& packed = add(stem + ".weight_packed", DType::kU8, {outputs, inputs / 2});
    std::string& scale =
        add(stem + ".weight_scale", DType::kU8, {outputs, inputs / kMxfp4GroupSize});
    mxfp4_encode(from, {reinterpret_cast<std::uint8_t*>(packed.data()), packed.size()},
                 {reinterpret_cast<std::uint8_t*>(scale.data()), scale.size()});
  }
  void vector(const std::string& name, std::int64_t size, WeightVector&) override {
    add_floats(name, {size}, of(module_of(name)));
  }
  void head_rate(const std::string& name, const KdaSpec& spec, WeightVector&) override {
    add_floats(name, {spec.heads}, of(name));
  }
  void conv(const std::string& name, std::int64_t part, const KdaSpec& spec,
            WeightVector&) override {
    // Ours is [width, 3 * inner]; the file's is [inner, 1, width] for each part.
    const std::int64_t inner = spec.inner();
    const std::string layer = name.substr(0, name.rfind("conv1d") - 2);  // less "q_"
    const std::span<const float> from = of(layer + "conv1d");
    std::vector<float> taps;
    for (std::int64_t c = 0; c < inner; ++c) {
      for (std::int64_t j = 0; j < spec.conv_width; ++j) {
        taps.push_back(from[static_cast<std::size_t>(j * 3 * inner + part * inner + c)]);
      }
    }
    add_floats(name, {inner, 1, spec.conv_width}, taps);
  }
  void mix(const std::string& stem, std::int64_t size, WeightVector&) override {
    // Only the product of the two was trained.
    const std::vector<float> ones(static_cast<std::size_t>(size), 1.0f);
    add_floats(stem + "_norm.weight", {size}, ones);
    add_floats(stem + "_proj.weight", {1, size}, of(stem));
  }

  Result<std::vector<TensorToWrite>> tensors() const {
    if (!unpackable_.empty()) return invalid("{}", unpackable_);
    std::vector<TensorToWrite> all;
    // Wide elements first: they stay aligned.
    for (const DType dtype : {DType::kF32, DType::kU8}) {
      for (const auto& [name, tensor] : made_) {
        if (tensor.info.dtype != dtype) continue;
        all.push_back({tensor.info, std::as_bytes(std::span(tensor.bytes))});
      }
    }
    return all;
  }

 private:
  struct Made {
    TensorInfo info;
    std::string bytes;
  };

  static std::string module_of(const std::string& name) {
    constexpr std::string_view kSuffix = ".weight";
    return name.ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size()) : name;
  }
  std::span<const float> of(const std::string& path) const {
    const WeightSlot& slot = *slots_.at(path);
    return std::span(values_).subspan(static_cast<std::size_t>(slot.offset),
                                      static_cast<std::size_t>(slot.rows * slot.columns));
  }
  std::string& add(const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
    Made& made = made_[name];
    std::size_t bytes = element_bytes(dtype);
    for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
    made = {{name, dtype, std::move(shape)}, std::string(bytes, '\0')};
    return made.bytes;
  }
  void add_floats(const std::string& name, std::vector<std::int64_t> shape,
                  std::span<const float> from) {
    const auto bytes = std::as_bytes(from);
    add(name, DType::kF32, std::move(shape))
        .assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  const std::vector<float>& values_;
  ExpertStorage experts_;
  std::map<std::string, const WeightSlot*> slots_;
  std::map<std::string, Made> made_;
  std::string unpackable_;
};

}  // namespace

template <typename T>
Result<void> save_checkpoint(const ModelSpec& spec, const TrainableWeights<T>& weights,
                             const std::string& config, const std::filesystem::path& folder,
                             ExpertStorage experts) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return invalid("{}: cannot be made: {}", folder.string(), error.message());
  TensorMaker maker(weights.slots(), weights.values(), experts);
  ModelWeights shapes;  // visited for its tensors' names alone
  visit_weights(spec, shapes, maker);
  const std::vector<TensorToWrite> tensors = TRY(maker.tensors());
  TRY(replace_file(folder / "model.safetensors", [&](const std::filesystem::path& part) {
    return write_safetensors(part, tensors);
  }));
  return replace_text_file(folder / "config.json", config);
}

template Result<void> save_checkpoint(const ModelSpec&, const TrainableWeights<float>&,
                                      const std::string&, const std::filesystem::path&,
                                      ExpertStorage);
template Result<void> save_checkpoint(const ModelSpec&, const TrainableWeights<double>&,
                                      const std::string&, const std::filesystem::path&,
                                      ExpertStorage);

}  // namespace tandem::train
