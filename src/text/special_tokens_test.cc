#include "text/special_tokens.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "support/temp_folder.h"

namespace tandem {
namespace {

std::string table_error(const std::vector<SpecialToken>& tokens) {
  const auto table = SpecialTokenTable::create(tokens, 10, 14);
  return table ? "no error" : table.error().message;
}

TEST(SpecialTokenTable, unnamed_ids_are_reserved_and_special) {
  const auto table = SpecialTokenTable::create({{11, "<|x|>", false}}, 10, 13).value();
  EXPECT_EQ(table.at(10).name, "<|reserved_token_10|>");
  EXPECT_TRUE(table.at(10).is_special);
  EXPECT_FALSE(table.at(11).is_special);
  EXPECT_EQ(table.find("<|reserved_token_12|>"), 12);
  EXPECT_EQ(table.find("<|reserved_token_13|>"), std::nullopt);
}

TEST(SpecialTokenTable, finds_the_first_name_and_the_longest_of_several) {
  const auto table =
      SpecialTokenTable::create({{10, "<a>", true}, {11, "<a><b>", true}, {12, "[", true}}, 10, 13)
          .value();
  const auto find = [&](std::string_view text) {
    const auto match = table.find_in(text);
    return match ? std::pair<std::size_t, TokenId>{match->position, match->id}
                 : std::pair<std::size_t, TokenId>{std::string_view::npos, -1};
  };
  EXPECT_EQ(find("<<a><b>"), (std::pair<std::size_t, TokenId>{1, 11}));
  EXPECT_EQ(find("<a><a"), (std::pair<std::size_t, TokenId>{0, 10}));
  EXPECT_EQ(find("a>[<a>"), (std::pair<std::size_t, TokenId>{2, 12}));
  EXPECT_EQ(find("<a").second, -1);
}

TEST(SpecialTokenTable, refuses_ids_and_names_that_do_not_fit) {
  EXPECT_EQ(table_error({{14, "x", true}}),
            "special token \"x\": id 14 is out of range; expected 10..13");
  EXPECT_EQ(table_error({{9, "x", true}}),
            "special token \"x\": id 9 is out of range; expected 10..13");
  EXPECT_EQ(table_error({{10, "x", true}, {10, "y", true}}),
            "special token id 10: expected one non-empty name");
  EXPECT_EQ(table_error({{10, "", true}}), "special token id 10: expected one non-empty name");
  EXPECT_EQ(table_error({{10, "x", true}, {12, "x", true}}),
            "special token \"x\" is named for ids 10 and 12; expected each name once");
  EXPECT_FALSE(SpecialTokenTable::create({}, 10, 9));
}

TEST(ReadSpecialTokens, names_the_file_and_what_was_expected) {
  const TempFolder folder;
  const auto file = folder / "tokenizer_config.json";
  const auto error_of = [&](const char* content) {
    std::ofstream(file) << content;
    const auto tokens = read_special_tokens(file);
    return tokens ? "no error" : tokens.error().message.substr(file.string().size());
  };
  EXPECT_EQ(error_of("{").substr(0, 16), ": expected JSON:");
  EXPECT_EQ(error_of("[]"), ": expected an object \"added_tokens_decoder\"");
  EXPECT_EQ(error_of("{}"), ": expected an object \"added_tokens_decoder\"");
  const std::string entry = ": expected an id with a string \"content\" and a boolean \"special\"";
  EXPECT_EQ(error_of(R"({"added_tokens_decoder":{"x":{"content":"a"}}})"),
            ": added_tokens_decoder[\"x\"]" + entry);
  EXPECT_EQ(error_of(R"({"added_tokens_decoder":{"1":{"content":7}}})"),
            ": added_tokens_decoder[\"1\"]" + entry);
  EXPECT_EQ(error_of(R"({"added_tokens_decoder":{"1":7}})"),
            ": added_tokens_decoder[\"1\"]" + entry);
  EXPECT_EQ(error_of(R"({"added_tokens_decoder":{"1":{"content":"a","special":1}}})"),
            ": added_tokens_decoder[\"1\"]" + entry);
  EXPECT_EQ(error_of(R"({"added_tokens_decoder":{"1":{"content":"a"}}})"), "no error");
}

}  // namespace
}  // namespace tandem
