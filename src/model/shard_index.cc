#include "model/shard_index.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "model/input.h"

namespace tandem {
namespace {

// A file of the folder itself: anything else could name a file that the user never pointed at.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

// K3's index has half a million entries: read them event by event, without a document in between.
class IndexReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit IndexReader(std::string_view source) : source_(source) {}

  Status error;
  std::map<std::string, std::string, std::less<>> files;  // tensor -> file
  bool has_weight_map = false;

  bool null() override { return scalar("null"); }
  bool boolean(bool /*value*/) override { return scalar("a boolean"); }
  bool number_integer(number_integer_t /*value*/) override { return scalar("a number"); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return scalar("a number"); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    return scalar("a number");
  }
  bool binary(binary_t& /*value*/) override { return scalar("binary data"); }

  bool string(string_t& value) override {
    if (!in_weight_map()) return scalar("a string");
    if (!is_plain_name(value)) {
      return stop(
          "weight_map puts tensor {} into {}; expected the name of a file in the same folder",
          in_quotes(tensor_), in_quotes(value));
    }
    if (!files.try_emplace(tensor_, std::move(value)).second) {
      return stop("weight_map lists tensor {} twice", in_quotes(tensor_));
    }
    return true;
  }

  bool key(string_t& value) override {
    if (depth_ == 1) section_ = value;
    if (in_weight_map()) tensor_ = value;
    return true;
  }

  bool start_object(std::size_t /*size*/) override {
    if (depth_ == 1 && section_ == "weight_map") {
      if (std::exchange(has_weight_map, true)) return stop("weight_map comes twice");
    } else if (in_weight_map()) {
      return scalar("an object");
    }
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t /*size*/) override {
    if (!scalar("a list")) return false;
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& /*exception*/) override {
    return stop("not valid JSON at byte {}", position);
  }

 private:
  template <typename... Args>
  bool stop(fmt::format_string<Args...> format, Args&&... args) {
    error = {StatusCode::kInvalidArgument,
             fmt::format("{}: {}", source_, fmt::format(format, std::forward<Args>(args)...))};
    return false;
  }

  bool in_weight_map() const { return depth_ == 2 && section_ == "weight_map"; }

  // A value that is not an object: free elsewhere, wrong at the top and inside weight_map.
  bool scalar(std::string_view what) {
    if (depth_ == 0) return stop("the index is {}; expected a JSON object", what);
    if (depth_ == 1 && section_ == "weight_map") {
      return stop("weight_map is {}; expected an object of tensor names and files", what);
    }
    if (in_weight_map()) {
      return stop("weight_map gives tensor {} {}; expected a file name", in_quotes(tensor_), what);
    }
    return true;
  }

  std::string_view source_;
  std::size_t depth_ = 0;
  std::string section_;
  std::string tensor_;
};

}  // namespace

Result<ShardIndex> parse_shard_index(std::string_view json, std::string_view source) {
  IndexReader reader(source);
  if (!nlohmann::json::sax_parse(json, &reader)) return fail(std::move(reader.error));
  if (reader.files.empty()) {
    return invalid("{}: no weight_map, or an empty one; expected tensor names and files", source);
  }
  std::map<std::string_view, std::size_t> numbers;
  for (const auto& [tensor, file] : reader.files) numbers.try_emplace(file, 0);
  ShardIndex index;
  for (auto& [file, number] : numbers) {
    number = index.files.size();
    index.files.emplace_back(file);
  }
  for (const auto& [tensor, file] : reader.files) {
    index.tensors.emplace_hint(index.tensors.end(), tensor, numbers.at(file));
  }
  return index;
}

}  // namespace tandem
