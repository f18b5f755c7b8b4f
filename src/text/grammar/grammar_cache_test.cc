#include "text/grammar/grammar_cache.h"

#include <gtest/gtest.h>

#include "text/grammar/grammar_test_support.h"

namespace tandem {
namespace {

TEST(GrammarCache, compiles_once_and_forgets_what_was_not_asked_for_longest) {
  GrammarCache cache;
  int compiled = 0;
  const auto get = [&](const std::string& key) {
    return *cache.get(key, [&] {
      ++compiled;
      return Grammar::regex("a", grammar_testing::byte_vocabulary());
    });
  };
  const Grammar::Pointer first = get("first");
  EXPECT_EQ(get("first"), first);
  EXPECT_EQ(compiled, 1);
  get("second");
  for (std::size_t i = 2; i < GrammarCache::kMaxGrammars; ++i) get(std::to_string(i));
  EXPECT_EQ(get("first"), first);  // now the latest
  get("one too many");
  const int before = compiled;
  EXPECT_EQ(get("first"), first);
  EXPECT_EQ(compiled, before);
  get("second");
  EXPECT_EQ(compiled, before + 1);
}

TEST(GrammarCache, errors_are_not_kept) {
  GrammarCache cache;
  const auto bad = [] { return Grammar::regex("(", grammar_testing::byte_vocabulary()); };
  EXPECT_FALSE(cache.get("key", bad));
  EXPECT_TRUE(
      cache.get("key", [] { return Grammar::regex("a", grammar_testing::byte_vocabulary()); }));
}

}  // namespace
}  // namespace tandem
