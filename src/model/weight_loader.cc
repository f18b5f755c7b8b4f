#include "model/weight_loader.h"

#include <fmt/ranges.h>

#include <cmath>
#include <cstring>

#include "base/log.h"
#include "model/input.h"
#include "tensor/mxfp4.h"

namespace tandem {
namespace {

constexpr DType kDense[] = {DType::kBF16, DType::kF32, DType::kF16};
constexpr DType kBytes[] = {DType::kU8};

float element_at(const std::byte* at, DType dtype) {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return dtype == DType::kBF16 ? to_float(BF16{bits}) : half_to_float(bits);
}

AlignedBuffer<float> widened(std::span<const std::byte> bytes, DType dtype) {
  const std::size_t width = element_bytes(dtype);
  AlignedBuffer<float> values(bytes.size() / width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = element_at(bytes.data() + i * width, dtype);
  }
  return values;
}

bool is_vision(std::string_view name) {
  return name.starts_with("vision_tower.") || name.starts_with("mm_projector.");
}

}  // namespace

const TensorEntry* WeightLoader::find(const std::string& name, std::string_view shape) {
  if (error_) return nullptr;
  const TensorEntry* entry = checkpoint_.find(name);
  if (entry == nullptr) {
    fail_with(StatusCode::kInvalidArgument, "{}: tensor {} is missing; expected it with shape {}",
              checkpoint_.listing().string(), in_quotes(name), shape);
    return nullptr;
  }
  taken_.insert(entry);
  report_progress();
  return entry;
}

bool WeightLoader::check_dtype(const std::string& name, const TensorEntry& entry,
                               std::span<const DType> dtypes) {
  std::vector<std::string_view> names;
  for (DType dtype : dtypes) {
    if (entry.dtype == dtype) return true;
    names.push_back(to_string(dtype));
  }
  fail_with(StatusCode::kInvalidArgument, "{}: tensor {} has dtype {}; expected {}", file(entry),
            in_quotes(name), to_string(entry.dtype), fmt::join(names, " or "));
  return false;
}

const TensorEntry* WeightLoader::take(const std::string& name, std::span<const Shape> shapes,
                                      std::span<const DType> dtypes) {
  const TensorEntry* entry = find(name, shape_text(shapes.front()));
  if (entry == nullptr || !check_dtype(name, *entry, dtypes)) return nullptr;
  for (const Shape& shape : shapes) {
    if (entry->shape == shape) return entry;
  }
  fail_with(StatusCode::kInvalidArgument, "{}: tensor {} has shape {}; expected {}", file(*entry),
            in_quotes(name), shape_text(entry->shape), shape_text(shapes.front()));
  return nullptr;
}

std::optional<WeightVector> WeightLoader::values(const std::string& name,
                                                 const TensorEntry& entry) {
  WeightVector result = widened(checkpoint_.bytes(entry), entry.dtype);
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (std::isfinite(result[i])) continue;
    fail_with(StatusCode::kInvalidArgument, "{}: tensor {} holds {} at {}; expected finite values",
              file(entry), in_quotes(name), result[i], i);
    return std::nullopt;
  }
  return result;
}

void WeightLoader::matrix(const std::string& name, std::int64_t outputs, std::int64_t inputs,
                          WeightMatrix& to) {
  const Shape shape = {outputs, inputs};
  const TensorEntry* entry = take(name, {&shape, 1}, kDense);
  if (entry == nullptr) return;
  const std::span<const std::byte> bytes = checkpoint_.bytes(*entry);
  to = {entry->dtype, bytes.data(), nullptr, outputs, inputs};
  if (entry->dtype == DType::kF16) {
    storage_.push_back(widened(bytes, entry->dtype));
    to.dtype = DType::kF32;
    to.data = storage_.back().data();
  } else if (reinterpret_cast<std::uintptr_t>(bytes.data()) % element_bytes(entry->dtype) != 0) {
    AlignedBuffer<float> copy((bytes.size() + sizeof(float) - 1) / sizeof(float));
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    storage_.push_back(std::move(copy));
    to.data = storage_.back().data();
  }
}

void WeightLoader::expert(const std::string& stem, std::int64_t outputs, std::int64_t inputs,
                          WeightMatrix& to) {
  const std::string packed_name = stem + ".weight_packed";
  const std::string scale_name = stem + ".weight_scale";
  // The tensors decide, not quantization_config: its patterns do not name all that stays unpacked.
  if (checkpoint_.find(packed_name) == nullptr && checkpoint_.find(scale_name) == nullptr) {
    return matrix(stem + ".weight", outputs, inputs, to);
  }
  if (inputs % kMxfp4GroupSize != 0) {
    return fail_with(StatusCode::kInvalidArgument,
                     "{}: tensor {} packs rows of {} inputs; expected a multiple of {}",
                     checkpoint_.listing().string(), in_quotes(packed_name), inputs,
                     kMxfp4GroupSize);
  }
  const Shape packed_shape = {outputs, inputs / 2};
  const Shape scale_shape = {outputs, inputs / kMxfp4GroupSize};
  const TensorEntry* packed = take(packed_name, {&packed_shape, 1}, kBytes);
  const TensorEntry* scale = take(scale_name, {&scale_shape, 1}, kBytes);
  if (packed == nullptr || scale == nullptr) return;
  const std::span<const std::byte> scales = checkpoint_.bytes(*scale);
  if (const void* nan = std::memchr(scales.data(), kMxfp4NanScale, scales.size())) {
    const std::int64_t at = static_cast<const std::byte*>(nan) - scales.data();
    return fail_with(StatusCode::kInvalidArgument,
                     "{}: tensor {} holds the scale byte 255 (not a number) at [{}, {}]; expected "
                     "0 to 254",
                     file(*scale), in_quotes(scale_name), at / scale_shape[1], at % scale_shape[1]);
  }
  to = {DType::kMxfp4, checkpoint_.bytes(*packed).data(),
        reinterpret_cast<const std::uint8_t*>(scales.data()), outputs, inputs};
}

void WeightLoader::vector(const std::string& name, std::int64_t size, WeightVector& to) {
  const Shape shape = {size};
  const TensorEntry* entry = take(name, {&shape, 1}, kDense);
  if (entry == nullptr) return;
  if (auto vector = values(name, *entry)) to = std::move(*vector);
}

void WeightLoader::head_rate(const std::string& name, const KdaSpec& spec, WeightVector& to) {
  const TensorEntry* entry = find(name, fmt::format("[{}]", spec.heads));
  if (entry == nullptr || !check_dtype(name, *entry, kDense)) return;
  const bool padded = entry->shape.size() == 1 && entry->shape[0] >= spec.heads;
  if (!padded && entry->shape != Shape{1, 1, spec.heads, 1}) {
    return fail_with(StatusCode::kInvalidArgument,
                     "{}: tensor {} has shape {}; expected [n] with n >= {}, or [1, 1, {}, 1]",
                     file(*entry), in_quotes(name), shape_text(entry->shape), spec.heads,
                     spec.heads);
  }
  const auto logs = values(name, *entry);
  if (!logs) return;
  const auto heads = static_cast<std::size_t>(spec.heads);
  // One value a head, although K3's padded length equals its head dimension.
  for (std::size_t i = heads; i < logs->size(); ++i) {
    if ((*logs)[i] == 0.0f) continue;
    return fail_with(StatusCode::kInvalidArgument,
                     "{}: tensor {} holds {} at {}; expected zeros after the {} heads",
                     file(*entry), in_quotes(name), (*logs)[i], i, heads);
  }
  to = WeightVector(heads);
  for (std::size_t h = 0; h < heads; ++h) {
    to[h] = std::exp((*logs)[h]);
    if (std::isfinite(to[h])) continue;
    return fail_with(StatusCode::kInvalidArgument,
                     "{}: tensor {} holds {} at {}; expected a finite exponential", file(*entry),
                     in_quotes(name), (*logs)[h], h);
  }
}

void WeightLoader::conv(const std::string& name, std::int64_t part, const KdaSpec& spec,
                        WeightVector& to) {
  const std::int64_t channels = spec.inner();
  const Shape shapes[] = {{channels, 1, spec.conv_width}, {channels, spec.conv_width}};
  const TensorEntry* entry = take(name, shapes, kDense);
  if (entry == nullptr) return;
  const auto taps = values(name, *entry);
  if (!taps) return;
  const auto width = static_cast<std::size_t>(spec.conv_width);
  const auto stride = static_cast<std::size_t>(3 * channels);
  const auto first = static_cast<std::size_t>(part * channels);
  if (to.size() == 0) to = WeightVector(width * stride);
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    for (std::size_t j = 0; j < width; ++j) to[j * stride + first + c] = (*taps)[c * width + j];
  }
}

void WeightLoader::mix(const std::string& stem, std::int64_t size, WeightVector& to) {
  WeightVector norm;
  vector(stem + "_norm.weight", size, norm);
  const std::string name = stem + "_proj.weight";
  const Shape shape = {1, size};
  const TensorEntry* entry = take(name, {&shape, 1}, kDense);
  if (entry == nullptr) return;
  auto query = values(name, *entry);
  if (!query || norm.size() == 0) return;
  for (std::size_t i = 0; i < norm.size(); ++i) (*query)[i] *= norm[i];
  to = std::move(*query);
}

void WeightLoader::report_progress() {
  if (options_.progress == nullptr) return;
  const double share =
      static_cast<double>(taken_.size()) / static_cast<double>(checkpoint_.tensors().size());
  if (share < reported_ + 0.01 && share < 1) return;
  reported_ = share;
  options_.progress(share, options_.progress_context);
}

Result<void> WeightLoader::finish() {
  if (error_) return fail(*error_);
  std::size_t vision = 0;
  const TensorTable::value_type* unread = nullptr;
  std::size_t unread_count = 0;
  for (const auto& item : checkpoint_.tensors()) {
    if (taken_.contains(&item.second)) continue;
    if (is_vision(item.first)) {
      ++vision;
    } else {
      if (unread == nullptr) unread = &item;
      ++unread_count;
    }
  }
  if (unread != nullptr) {
    return invalid(
        "{}: tensor {} is no part of the model that config.json describes ({} in all); "
        "expected every tensor to be used",
        file(unread->second), in_quotes(unread->first), unread_count);
  }
  if (vision != 0) {
    log_info("{}: {} vision tensors set aside: only text is read",
             checkpoint_.listing().parent_path().string(), vision);
  }
  if (options_.progress != nullptr && reported_ < 1)
    options_.progress(1, options_.progress_context);
  return {};
}

}  // namespace tandem
