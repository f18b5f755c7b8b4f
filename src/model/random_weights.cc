#include "model/random_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/philox.h"
#include "model/input.h"
#include "model/weight_table.h"
#include "tensor/mxfp4.h"

namespace tandem {
namespace {

using Kind = RandomValues::Kind;

RandomValues normal(double mean, double std) {
  // The sum of four uniform bytes has variance 4 * (256^2 - 1) / 12 = 21845.
  return {Kind::kNormal, static_cast<float>(mean), static_cast<float>(std / std::sqrt(21845.0))};
}

RandomValues uniform(double low, double high) {
  return {Kind::kUniform, static_cast<float>(low), static_cast<float>((high - low) * 0x1p-24)};
}

// Codes are uniform over all 16, whose root mean square is 2.926, and scales vary by 2^{-1, 0, 0,
// 1}: the scale byte that gives weights of the standard deviation `std`.
RandomValues scale_bytes(double std) {
  const double exponent = std::round(std::log2(std / (2.926 * 1.25)));
  return {Kind::kScale, static_cast<float>(127 + exponent)};
}

// How a tensor is drawn, by the end of its name; the first row that fits. Products of a linear map
// keep the size of their input if its weights have the standard deviation 1/sqrt(inputs).
struct Rule {
  std::string_view suffix;
  DType dtype;
  RandomValues (*values)(double inputs);
};
constexpr Rule kRules[] = {
    {"o_norm.weight", DType::kF32, [](double) { return normal(1, 0.1); }},
    {"norm.weight", DType::kBF16, [](double) { return normal(1, 0.1); }},
    {"e_score_correction_bias", DType::kF32, [](double) { return normal(0, 0.01); }},
    {"conv1d.weight", DType::kF32, [](double) { return normal(0, 0.35); }},
    {"_res_proj.weight", DType::kBF16, [](double n) { return normal(0, 0.5 / std::sqrt(n)); }},
    {"embed_tokens.weight", DType::kBF16, [](double) { return normal(0, 1); }},
    {"f_b_proj.weight", DType::kBF16, [](double n) { return normal(0, 0.25 / std::sqrt(n)); }},
    {".weight_packed", DType::kU8, [](double) { return RandomValues{Kind::kByte}; }},
    {".weight_scale", DType::kU8, [](double n) { return scale_bytes(1 / std::sqrt(n)); }},
    {".weight", DType::kBF16, [](double n) { return normal(0, 1 / std::sqrt(n)); }},
};

bool has_bounded_decay(const ModelSpec& spec) {
  return std::any_of(spec.layers.begin(), spec.layers.end(), [](const LayerSpec& layer) {
    const auto* kda = std::get_if<KdaSpec>(&layer.attention);
    return kda != nullptr && kda->decay_lower_bound.has_value();
  });
}

// Lists the tensors of a model instead of reading them.
class Lister final : public WeightVisitor {
 public:
  explicit Lister(const ModelSpec& spec) : packed_experts_(spec.packed_experts) {
    // Bias and rates (A_log) that give log decays of about -0.01 to -2: neither gate is saturated.
    decay_bias_ = has_bounded_decay(spec) ? uniform(-1.5, -0.5) : uniform(-3, -1);
  }

  std::vector<RandomTensor> tensors;
  std::optional<Status> error;

  void matrix(const std::string& name, std::int64_t outputs, std::int64_t inputs,
              WeightMatrix& /*to*/) override {
    add(name, {outputs, inputs}, inputs);
  }

  void expert(const std::string& stem, std::int64_t outputs, std::int64_t inputs,
              WeightMatrix& to) override {
    if (!packed_experts_) return matrix(stem + ".weight", outputs, inputs, to);
    if (inputs % kMxfp4GroupSize != 0 && !error) {
      error =
          Status{StatusCode::kInvalidArgument,
                 fmt::format("tensor {} would pack rows of {} inputs; expected a multiple of {}",
                             in_quotes(stem), inputs, kMxfp4GroupSize)};
    }
    add(stem + ".weight_packed", {outputs, inputs / 2}, inputs);
    add(stem + ".weight_scale", {outputs, inputs / kMxfp4GroupSize}, inputs);
  }

  void vector(const std::string& name, std::int64_t size, WeightVector& /*to*/) override {
    if (!name.ends_with("dt_bias")) return add(name, {size}, size);
    tensors.push_back({{name, DType::kF32, {size}}, decay_bias_});
  }

  // As the vendor stores it: padded with zeros to a multiple of the head width where the decay is
  // bounded (Kimi K3), and with four dimensions where it is not (Kimi Linear).
  void head_rate(const std::string& name, const KdaSpec& spec, WeightVector& /*to*/) override {
    const bool bounded = spec.decay_lower_bound.has_value();
    RandomValues values = uniform(0, std::log(4.0));
    values.live = spec.heads;
    const std::int64_t padded = (spec.heads + spec.head_dim - 1) / spec.head_dim * spec.head_dim;
    using Shape = std::vector<std::int64_t>;
    tensors.push_back(
        {{name, DType::kF32, bounded ? Shape{padded} : Shape{1, 1, spec.heads, 1}}, values});
  }

  void conv(const std::string& name, std::int64_t /*part*/, const KdaSpec& spec,
            WeightVector& /*to*/) override {
    add(name, {spec.inner(), 1, spec.conv_width}, spec.conv_width);
  }

  void mix(const std::string& stem, std::int64_t size, WeightVector& /*to*/) override {
    add(stem + "_norm.weight", {size}, size);
    add(stem + "_proj.weight", {1, size}, size);
  }

 private:
  void add(const std::string& name, std::vector<std::int64_t> shape, std::int64_t inputs) {
    for (const Rule& rule : kRules) {
      if (!name.ends_with(rule.suffix)) continue;
      tensors.push_back(
          {{name, rule.dtype, std::move(shape)}, rule.values(static_cast<double>(inputs))});
      return;
    }
    CHECK(false, "no rule for tensor {}", name);
  }

  bool packed_experts_;
  RandomValues decay_bias_;
};

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (char c : text) hash = (hash ^ static_cast<std::uint8_t>(c)) * 1099511628211u;
  return hash;
}

float element(const RandomValues& values, std::uint32_t word) {
  if (values.kind == Kind::kUniform) {
    return values.offset + values.scale * static_cast<float>(word >> 8);
  }
  const std::uint32_t sum =
      (word & 255) + ((word >> 8) & 255) + ((word >> 16) & 255) + (word >> 24);
  return values.offset + values.scale * static_cast<float>(static_cast<int>(sum) - 510);
}

std::uint8_t byte_element(const RandomValues& values, std::uint8_t byte) {
  constexpr int kSteps[] = {-1, 0, 0, 1};
  if (values.kind == Kind::kByte) return byte;
  return static_cast<std::uint8_t>(static_cast<int>(values.offset) + kSteps[byte & 3]);
}

// Block `index` as elements of `dtype`: 4 floats, 4 halves or 16 bytes; returns how many bytes.
std::size_t make_block(const RandomTensor& tensor, std::uint64_t seed, std::uint64_t hash,
                       std::uint64_t index, std::byte* out) {
  const std::array<std::uint32_t, 4> words =
      philox(seed, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                    static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)});
  if (tensor.info.dtype == DType::kU8) {
    for (std::size_t i = 0; i < 16; ++i) {
      const auto byte = static_cast<std::uint8_t>(words[i / 4] >> (8 * (i % 4)));
      out[i] = std::byte{byte_element(tensor.values, byte)};
    }
    return 16;
  }
  for (std::size_t i = 0; i < 4; ++i) {
    const bool live = static_cast<std::int64_t>(4 * index + i) < tensor.values.live;
    const float value = live ? element(tensor.values, words[i]) : 0.0f;
    if (tensor.info.dtype == DType::kF32) {
      std::memcpy(out + 4 * i, &value, 4);
    } else {
      const BF16 rounded = to_bf16(value);
      std::memcpy(out + 2 * i, &rounded, 2);
    }
  }
  return 4 * element_bytes(tensor.info.dtype);
}

}  // namespace

std::int64_t RandomTensor::elements() const {
  std::int64_t count = 1;
  for (std::int64_t size : info.shape) count *= size;
  return count;
}

std::uint64_t RandomTensor::bytes() const {
  return static_cast<std::uint64_t>(elements()) * element_bytes(info.dtype);
}

Result<std::vector<RandomTensor>> random_tensors(const ModelSpec& spec) {
  Lister lister(spec);
  ModelWeights unused;
  visit_weights(spec, unused, lister);
  if (lister.error) return fail(*lister.error);
  return std::move(lister.tensors);
}

void fill_random(const RandomTensor& tensor, std::uint64_t seed, std::int64_t first,
                 std::span<std::byte> bytes) {
  CHECK(first % 16 == 0, "first element {} of {}", first, tensor.info.name);
  const std::uint64_t hash = fnv1a(tensor.info.name);
  const int per_block = tensor.info.dtype == DType::kU8 ? 16 : 4;
  auto index = static_cast<std::uint64_t>(first / per_block);
  std::array<std::byte, 16> block;
  while (!bytes.empty()) {
    const std::size_t made = make_block(tensor, seed, hash, index++, block.data());
    const std::size_t used = std::min(made, bytes.size());
    std::memcpy(bytes.data(), block.data(), used);
    bytes = bytes.subspan(used);
  }
}

}  // namespace tandem
