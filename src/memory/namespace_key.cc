#include "memory/namespace_key.h"

#include <string_view>

namespace tandem {
namespace {

void append_number(std::string& bytes, std::uint64_t number) {
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(number >> (8 * i)));
}

// The length goes first, so that no two lists of fields run together to the same bytes.
void append_text(std::string& bytes, std::string_view text) {
  append_number(bytes, text.size());
  bytes.append(text);
}

}  // namespace

NamespaceKey CacheNamespace::key() const {
  std::string bytes;
  append_number(bytes, adapter_version);
  append_number(bytes, weights_version);
  append_text(bytes, adapter);
  append_text(bytes, salt);
  for (const std::string& image : images) append_text(bytes, image);
  return NamespaceKey(std::move(bytes));
}

}  // namespace tandem
