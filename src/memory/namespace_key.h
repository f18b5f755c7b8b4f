// What keeps apart cached prefixes that must not be shared although their tokens agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

// The name of one namespace. Equal only if every field of the namespace is: it holds the fields
// themselves, not a hash, so that no client can aim at another client's prefixes. A value.
class NamespaceKey {
 public:
  bool operator==(const NamespaceKey&) const = default;
  bool operator<(const NamespaceKey& other) const { return bytes_ < other.bytes_; }

 private:
  friend struct CacheNamespace;
  friend struct std::hash<NamespaceKey>;
  explicit NamespaceKey(std::string bytes) : bytes_(std::move(bytes)) {}

  std::string bytes_;
};

// Everything beside the tokens that a state or a row depends on, and the salt.
struct CacheNamespace {
  std::string adapter = {};  // empty: none
  std::uint64_t adapter_version = 0;
  std::uint64_t weights_version = 0;
  std::string salt = {};                 // of the tenant or client; empty: shared by all
  std::vector<std::string> images = {};  // content digests, in order of appearance

  NamespaceKey key() const;
};

}  // namespace tandem

template <>
struct std::hash<tandem::NamespaceKey> {
  std::size_t operator()(const tandem::NamespaceKey& key) const noexcept {
    return std::hash<std::string>()(key.bytes_);
  }
};
