#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/input.h"
#include "model/safetensors.h"

namespace tandem {
namespace {

constexpr DType kFileTypes[] = {DType::kBF16, DType::kF16, DType::kF32, DType::kF64,
                                DType::kI32,  DType::kI64, DType::kU8};
constexpr std::size_t kMaxRank = 8;

std::optional<DType> dtype_of(std::string_view name) {
  for (DType dtype : kFileTypes) {
    if (name == to_string(dtype)) return dtype;
  }
  return std::nullopt;
}

// Follows the header event by event, so that nothing outside the stated form is ever stored, and so
// that a name that comes twice is seen.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(std::string_view source) : source_(source) {}

  Status error;
  TensorTable table;

  bool null() override { return unexpected("null"); }
  bool boolean(bool /*value*/) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t value) override { return unexpected(std::to_string(value)); }
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    return unexpected(text);
  }
  bool binary(binary_t& /*value*/) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) return add_size(value);
    if (place_ == Place::kOffsets) return add_offset(value);
    return unexpected(std::to_string(value));
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kTensor || field_ != "dtype") return unexpected(in_quotes(value));
    const std::optional<DType> dtype = dtype_of(value);
    if (!dtype) {
      return stop("tensor {} has dtype {}; expected BF16, F16, F32, F64, I32, I64 or U8",
                  in_quotes(name_), in_quotes(value));
    }
    entry_.dtype = *dtype;
    return true;
  }

  bool start_object(std::size_t /*size*/) override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTensors;
        return true;
      case Place::kTensors:
        place_ = name_ == "__metadata__" ? Place::kMetadata : Place::kTensor;
        entry_ = {};
        offsets_ = 0;
        seen_ = {};
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(string_t& value) override {
    if (place_ == Place::kTensors) {
      name_ = value;
      if (table.contains(name_)) return stop("tensor {} is listed twice", in_quotes(name_));
    } else if (place_ == Place::kTensor) {
      field_ = value;
      return mark_field();
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensors) {
      place_ = Place::kEnd;
      return true;
    }
    if (place_ == Place::kTensor && !finish_tensor()) return false;
    place_ = Place::kTensors;
    return true;
  }

  bool start_array(std::size_t /*size*/) override {
    if (place_ != Place::kTensor || field_ == "dtype") return unexpected("a list");
    place_ = field_ == "shape" ? Place::kShape : Place::kOffsets;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsets && offsets_ != 2) {
      return stop("tensor {} has {} data_offsets; expected 2", in_quotes(name_), offsets_);
    }
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& /*exception*/) override {
    return stop("the header is not valid JSON at its byte {}", position);
  }

 private:
  enum class Place { kStart, kTensors, kMetadata, kTensor, kShape, kOffsets, kEnd };
  struct Seen {
    bool dtype = false, shape = false, offsets = false;
  };

  template <typename... Args>
  bool stop(fmt::format_string<Args...> format, Args&&... args) {
    error = {StatusCode::kInvalidArgument,
             fmt::format("{}: {}", source_, fmt::format(format, std::forward<Args>(args)...))};
    return false;
  }

  bool unexpected(std::string_view what) {
    switch (place_) {
      case Place::kStart:
        return stop("the header is {}; expected a JSON object", what);
      case Place::kTensors:
        return stop("tensor {} is {}; expected an object with dtype, shape and data_offsets",
                    in_quotes(name_), what);
      case Place::kMetadata:
        return stop("__metadata__ holds {}; expected strings only", what);
      case Place::kTensor:
        return stop("tensor {}: {} is {}; expected a {}", in_quotes(name_), field_, what,
                    field_ == "dtype" ? "string" : "list of integers >= 0");
      default:
        return stop("tensor {}: {} holds {}; expected integers >= 0", in_quotes(name_), field_,
                    what);
    }
  }

  bool mark_field() {
    bool* seen = field_ == "dtype"          ? &seen_.dtype
                 : field_ == "shape"        ? &seen_.shape
                 : field_ == "data_offsets" ? &seen_.offsets
                                            : nullptr;
    if (seen == nullptr) {
      return stop("tensor {} has a field {}; expected dtype, shape and data_offsets only",
                  in_quotes(name_), in_quotes(field_));
    }
    if (*seen) return stop("tensor {} has {} twice", in_quotes(name_), field_);
    *seen = true;
    return true;
  }

  bool add_size(std::uint64_t size) {
    if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return stop("tensor {}: shape holds {}, which is too large", in_quotes(name_), size);
    }
    if (entry_.shape.size() == kMaxRank) {
      return stop("tensor {} has more than {} dimensions", in_quotes(name_), kMaxRank);
    }
    entry_.shape.push_back(static_cast<std::int64_t>(size));
    return true;
  }

  bool add_offset(std::uint64_t offset) {
    if (offsets_ == 0) entry_.begin = offset;
    if (offsets_ == 1) entry_.end = offset;
    if (++offsets_ > 2) return stop("tensor {} has more than 2 data_offsets", in_quotes(name_));
    return true;
  }

  bool finish_tensor() {
    const char* missing = !seen_.dtype     ? "dtype"
                          : !seen_.shape   ? "shape"
                          : !seen_.offsets ? "data_offsets"
                                           : nullptr;
    if (missing != nullptr) return stop("tensor {} has no {}", in_quotes(name_), missing);
    std::uint64_t bytes = element_bytes(entry_.dtype);
    for (std::int64_t size : entry_.shape) {
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes) ||
          bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return stop("tensor {} of shape {} is too large", in_quotes(name_),
                    shape_text(entry_.shape));
      }
    }
    if (entry_.begin > entry_.end || entry_.end - entry_.begin != bytes) {
      return stop("tensor {} has data_offsets [{}, {}]; expected {} bytes for {} {}",
                  in_quotes(name_), entry_.begin, entry_.end, bytes, to_string(entry_.dtype),
                  shape_text(entry_.shape));
    }
    table.emplace(name_, std::move(entry_));
    return true;
  }

  std::string_view source_;
  Place place_ = Place::kStart;
  std::string name_;
  std::string field_;
  TensorEntry entry_;
  int offsets_ = 0;
  Seen seen_;
};

// The tensors must cover [0, data_bytes) without overlap or hole.
Result<void> check_tiling(const TensorTable& table, std::uint64_t data_bytes,
                          std::string_view source) {
  std::vector<const TensorTable::value_type*> order;
  order.reserve(table.size());
  for (const auto& item : table) order.push_back(&item);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  std::uint64_t at = 0;
  std::string_view previous;
  for (const auto* item : order) {
    const auto& [name, entry] = *item;
    if (entry.end > data_bytes) {
      return invalid("{}: tensor {} ends at byte {} of the data; the file holds {} (cut short?)",
                     source, in_quotes(name), entry.end, data_bytes);
    }
    if (entry.begin < at) {
      return invalid(
          "{}: tensor {} begins at byte {} of the data, inside tensor {} that ends at {}", source,
          in_quotes(name), entry.begin, in_quotes(previous), at);
    }
    if (entry.begin > at) {
      return invalid("{}: {} bytes before tensor {} belong to no tensor; expected none", source,
                     entry.begin - at, in_quotes(name));
    }
    at = entry.end;
    previous = name;
  }
  if (at != data_bytes) {
    return invalid("{}: {} bytes after the last tensor {} belong to no tensor; expected none",
                   source, data_bytes - at, in_quotes(previous));
  }
  return {};
}

}  // namespace

std::int64_t TensorEntry::elements() const {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  return count;
}

Result<TensorTable> parse_safetensors_header(std::string_view header, std::uint64_t data_bytes,
                                             std::string_view source) {
  HeaderReader reader(source);
  if (!nlohmann::json::sax_parse(header, &reader)) return fail(std::move(reader.error));
  TRY(check_tiling(reader.table, data_bytes, source));
  return std::move(reader.table);
}

}  // namespace tandem
