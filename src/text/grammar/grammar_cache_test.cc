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

TEST(GrammarCache, sources_that_were_refused_are_remembered) {
  GrammarCache cache;
  int compiled = 0;
  for (int i = 0; i < 3; ++i) {
    const auto made = cache.get("key", [&] {
      ++compiled;
      return Grammar::regex("(", grammar_testing::byte_vocabulary());
    });
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(compiled, 1);
}

}  // namespace
}  // namespace tandem
