#include "train/run/toml_table.h"

#include <fmt/core.h>

namespace tandem::train {
namespace {

// A key with the table that it stands in, as a person would write it.
std::string full_name(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

}  // namespace

const toml::node* TomlTable::find(const char* key) {
  known_.insert(key);
  return error_.empty() ? table_.get(key) : nullptr;
}

void TomlTable::complain(const char* key, const std::string& what) {
  if (!error_.empty()) return;
  const toml::node* node = table_.get(key);
  const std::string line = node == nullptr ? "" : fmt::format(":{}", node->source().begin.line);
  error_ = fmt::format("{}{}: {}: {}", source_, line, full_name(path_, key), what);
}

void TomlTable::read(const char* key, std::string& to) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  if (const auto value = node->value_exact<std::string>()) {
    to = *value;
  } else {
    complain(key, "expected a string");
  }
}

void TomlTable::read(const char* key, std::filesystem::path& to) {
  std::string text = to.string();
  read(key, text);
  to = text;
}

void TomlTable::read(const char* key, bool& to) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  if (const auto value = node->value_exact<bool>()) {
    to = *value;
  } else {
    complain(key, "expected true or false");
  }
}

void TomlTable::read(const char* key, std::int64_t& to, std::int64_t low, std::int64_t high) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const auto value = node->value_exact<std::int64_t>();
  if (value && *value >= low && *value <= high) {
    to = *value;
  } else {
    complain(key, fmt::format("expected a whole number from {} to {}", low, high));
  }
}

void TomlTable::read(const char* key, double& to, double low, double high) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const auto value = node->is_number() ? node->value<double>() : std::nullopt;
  if (value && *value >= low && *value <= high) {
    to = *value;
  } else {
    complain(key, fmt::format("expected a number from {} to {}", low, high));
  }
}

void TomlTable::read(const char* key, float& to, double low, double high) {
  double wide = static_cast<double>(to);
  read(key, wide, low, high);
  to = static_cast<float>(wide);
}

void TomlTable::read(const char* key, std::vector<std::string>& to) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const toml::array* array = node->as_array();
  if (array == nullptr) return complain(key, "expected an array of strings");
  std::vector<std::string> made;
  for (const toml::node& element : *array) {
    const auto value = element.value_exact<std::string>();
    if (!value) return complain(key, "expected an array of strings");
    made.push_back(*value);
  }
  to = std::move(made);
}

void TomlTable::require(const char* key) {
  if (table_.get(key) == nullptr) complain(key, "is missing");
}

const toml::table* TomlTable::table(const char* key) {
  const toml::node* node = find(key);
  if (node == nullptr) return nullptr;
  const toml::table* inner = node->as_table();
  if (inner == nullptr) complain(key, "expected a table");
  return inner;
}

Result<void> TomlTable::finish() const {
  if (!error_.empty()) return invalid("{}", error_);
  for (const auto& [key, node] : table_) {
    if (known_.contains(key.str())) continue;
    return invalid("{}:{}: {}: no such key here", source_, node.source().begin.line,
                   full_name(path_, key.str()));
  }
  return {};
}

}  // namespace tandem::train
