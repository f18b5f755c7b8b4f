// Reading a TOML table key by key, so that what nobody asked for can be refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "base/status.h"

namespace tandem::train {

// One table. The first error is kept and later reads do nothing, so that a whole file can be read
// before asking. Not thread-safe; the table outlives it.
class TomlTable {
 public:
  // `path` is the table's name for messages, "" for the file's own.
  TomlTable(const toml::table& table, std::string source, std::string path)
      : table_(table), source_(std::move(source)), path_(std::move(path)) {}

  // Each leaves `to` as it is if there is no such key.
  void read(const char* key, std::string& to);
  void read(const char* key, std::filesystem::path& to);
  void read(const char* key, bool& to);
  // With bounds that a value may equal.
  void read(const char* key, std::int64_t& to, std::int64_t low, std::int64_t high);
  void read(const char* key, double& to, double low, double high);
  void read(const char* key, float& to, double low, double high);
  void read(const char* key, std::vector<std::string>& to);
  // One of the names; `to` gets the value beside it.
  template <typename Value>
  void choose(const char* key, Value& to,
              const std::vector<std::pair<const char*, Value>>& choices) {
    std::string name;
    read(key, name);
    if (name.empty()) return;
    std::string expected;
    for (const auto& [text, value] : choices) {
      if (name == text) {
        to = value;
        return;
      }
      expected += (expected.empty() ? "" : ", ") + std::string(text);
    }
    complain(key, "expected one of " + expected + ", got '" + name + "'");
  }
  // The key has to be there.
  void require(const char* key);
  // A table inside, or nullptr.
  const toml::table* table(const char* key);
  void complain(const char* key, const std::string& what);

  // The first error, or a key that was never read.
  Result<void> finish() const;

 private:
  const toml::node* find(const char* key);

  const toml::table& table_;
  std::string source_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
  std::string error_;
};

}  // namespace tandem::train
