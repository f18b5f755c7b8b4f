#include "memory/namespace_key.h"

#include <gtest/gtest.h>

#include <unordered_set>

namespace tandem {
namespace {

TEST(NamespaceKeyTest, equal_fields_make_equal_keys) {
  const CacheNamespace ns = {.adapter = "law",
                             .adapter_version = 3,
                             .weights_version = 1,
                             .salt = "s",
                             .images = {"digest"}};
  EXPECT_EQ(ns.key(), CacheNamespace(ns).key());
  EXPECT_EQ(std::hash<NamespaceKey>()(ns.key()), std::hash<NamespaceKey>()(ns.key()));
}

TEST(NamespaceKeyTest, every_field_and_every_boundary_between_fields_matters) {
  const std::vector<CacheNamespace> all = {
      {},
      {.adapter = "a"},
      {.adapter = "a", .adapter_version = 1},
      {.adapter_version = 1},
      {.weights_version = 1},
      {.salt = "a"},
      {.adapter = "ab", .salt = "c"},
      {.adapter = "a", .salt = "bc"},
      {.images = {"a"}},
      {.images = {"a", "b"}},
      {.images = {"b", "a"}},
      {.images = {"ab"}},
      {.images = {"a", "b", ""}},
      {.salt = std::string(1, '\0')},
      {.salt = std::string(2, '\0')},
  };
  std::unordered_set<NamespaceKey> keys;
  for (const CacheNamespace& ns : all) keys.insert(ns.key());
  EXPECT_EQ(keys.size(), all.size());
}

}  // namespace
}  // namespace tandem
