#include <gtest/gtest.h>

#include "model/config.h"
#include "support/cases.h"
#include "support/temp_folder.h"

namespace tandem {
namespace {

TEST(GenerationConfig, demo_defaults_are_read) {
  const auto defaults = read_generation_config(source_folder() / "models/demo");
  ASSERT_TRUE(defaults) << defaults.error().message;
  EXPECT_EQ(defaults->temperature, 1.0f);
  EXPECT_EQ(defaults->top_p, 0.95f);
  EXPECT_FALSE(defaults->top_k);
  EXPECT_EQ(defaults->eos_ids, std::vector<TokenId>{4066});
}

TEST(GenerationConfig, absent_file_and_absent_fields_leave_everything_unset) {
  const TempFolder folder;
  const auto none = read_generation_config(folder.path());
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->temperature);
  const auto empty = parse_generation_config(R"({"temperature":null})", "g");
  ASSERT_TRUE(empty);
  EXPECT_FALSE(empty->temperature);
  EXPECT_TRUE(empty->eos_ids.empty());
}

TEST(GenerationConfig, every_field_is_read) {
  const auto all = parse_generation_config(
      R"({"temperature":0,"top_p":0.5,"top_k":40,"repetition_penalty":1.1,"max_new_tokens":9,)"
      R"("eos_token_id":[5,6],"do_sample":true,"transformers_version":"5"})",
      "g");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->temperature, 0.0f);
  EXPECT_EQ(all->top_p, 0.5f);
  EXPECT_EQ(all->top_k, 40);
  EXPECT_FLOAT_EQ(*all->repetition_penalty, 1.1f);
  EXPECT_EQ(all->max_new_tokens, 9);
  EXPECT_EQ(all->eos_ids, (std::vector<TokenId>{5, 6}));
}

TEST(GenerationConfig, values_out_of_range_are_refused) {
  for (const auto& [text, field] : std::vector<std::pair<const char*, const char*>>{
           {R"({"temperature":-1})", "temperature"},
           {R"({"top_p":1.5})", "top_p"},
           {R"({"top_k":-1})", "top_k"},
           {R"({"repetition_penalty":0})", "repetition_penalty"},
           {R"({"max_new_tokens":0})", "max_new_tokens"},
           {R"({"eos_token_id":"x"})", "eos_token_id"},
           {R"({"eos_token_id":[1,-2]})", "eos_token_id"}}) {
    const auto parsed = parse_generation_config(text, "dir/generation_config.json");
    ASSERT_FALSE(parsed) << text;
    expect_one_line(parsed.error().message, {"dir/generation_config.json: field '", field, "got"});
  }
}

}  // namespace
}  // namespace tandem
