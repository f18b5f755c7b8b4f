// Ids fixed from outside: the reference's cases for the demo model, and Kimi's own rank file.
#include <gtest/gtest.h>

#include <string>

#include "text/test_support.h"

namespace tandem {
namespace {

using Ids = std::vector<TokenId>;

TEST(TokenizerGolden, demo_cases_give_the_reference_ids) {
  const nlohmann::json cases = test_data("tokenizer_cases.json");
  ASSERT_FALSE(cases.empty());
  for (const auto& c : cases) {
    const auto text = c["text"].get<std::string>();
    EXPECT_EQ(demo_tokenizer().encode_plain(text), c["ids"].get<Ids>()) << text;
    EXPECT_EQ(demo_tokenizer().encode_markup(text), c["ids_special"].get<Ids>()) << text;
  }
}

TEST(TokenizerGolden, kimi_ranks_give_the_reference_ids) {
  const auto cases = reference_lines("tokenizer/bpe_golden.jsonl");
  if (cases.empty()) GTEST_SKIP() << "reference data is absent";
  const auto tokenizer = reference_k3_tokenizer();
  for (const auto& c : cases) {
    const auto text = c["text"].get<std::string>();
    EXPECT_EQ(tokenizer->encode_plain(text), c["ids"].get<Ids>()) << text;
  }
}

TEST(TokenizerGolden, kimi_markup_gives_the_ids_of_the_named_tokens) {
  if (reference_lines("tokenizer/bpe_golden.jsonl").empty())
    GTEST_SKIP() << "reference data is absent";
  const auto k3 = reference_k3_tokenizer();
  EXPECT_EQ(k3->vocab_size(), 163840);
  EXPECT_EQ(k3->encode_markup("<|open|>think<|sep|>"), (Ids{163587, 39964, 163589}));
  EXPECT_EQ(k3->encode_markup("<|open|>response<|sep|>"), (Ids{163587, 12092, 163589}));
  EXPECT_EQ(
      reference_kimi_linear_tokenizer()->encode_markup("<|im_user|>user<|im_middle|>hi<|im_end|>"),
      (Ids{163587, 2482, 163601, 9663, 163586}));
}

}  // namespace
}  // namespace tandem
