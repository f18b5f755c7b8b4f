// Schemas that a vendor accepts: the committed sample, and all of them where the reference data is.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "text/grammar/grammar_test_support.h"
#include "text/grammar/random_walk.h"
#include "text/grammar/schema_validator.h"
#include "text/test_support.h"

namespace tandem {
namespace {

struct Outcome {
  int compiled = 0;
  std::vector<std::string> refusals;  // "file:line: reason"
};

// Compiles every line of the file, and checks a text generated under each.
void try_schemas(const std::filesystem::path& file, Outcome* outcome) {
  std::ifstream in(file);
  std::mt19937 random(5);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const auto grammar = Grammar::json_schema(line, grammar_testing::byte_vocabulary());
    const std::string place = fmt::format("{}:{}", file.filename().string(), number);
    if (!grammar) {
      outcome->refusals.push_back(place + ": " + grammar.error().message);
      continue;
    }
    ++outcome->compiled;
    GrammarMatcher matcher(*grammar);
    int dead_ends = 0;
    const auto text = grammar_testing::random_walk(matcher, *grammar_testing::byte_vocabulary(),
                                                   random, 200, &dead_ends);
    EXPECT_EQ(dead_ends, 0) << place;
    if (!text) continue;
    const auto schema = nlohmann::json::parse(line);
    const auto value = nlohmann::json::parse(*text, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << place << ": " << *text;
    EXPECT_EQ(grammar_testing::violation(value, schema, schema), "") << place << ": " << *text;
  }
}

TEST(ToolSchemas, a_sample_compiles) {
  Outcome outcome;
  try_schemas(std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/text/tool_schemas.jsonl",
              &outcome);
  EXPECT_EQ(outcome.compiled, 16);
  EXPECT_EQ(outcome.refusals, std::vector<std::string>{});
}

TEST(ToolSchemas, nearly_all_compile) {
  const std::filesystem::path folder = reference_folder() / "tool_schemas";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no reference data";
  Outcome outcome;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry);
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    if (file.extension() == ".jsonl") try_schemas(file, &outcome);
  }
  for (const std::string& refusal : outcome.refusals) fmt::print("{}\n", refusal);
  fmt::print("{} compiled, {} refused\n", outcome.compiled, outcome.refusals.size());
  EXPECT_GE(outcome.compiled, 211);
}

}  // namespace
}  // namespace tandem
