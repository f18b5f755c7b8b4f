#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <string>

#include "text/test_support.h"

namespace tandem {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(std::string_view text) {
  static const PreTokenizer tokenizer;
  std::vector<std::size_t> ends;
  tokenizer.split(text, &ends);
  Pieces pieces;
  std::size_t start = 0;
  for (const std::size_t end : ends) {
    pieces.emplace_back(text.substr(start, end - start));
    start = end;
  }
  return pieces;
}

// Random strings cut by the rules' own regular expression (Python's `regex`, V1, Unicode 15).
TEST(PreTokenizer, agrees_with_the_defining_expression_on_random_unicode) {
  const nlohmann::json cases = test_data("pre_token_cases.json");
  ASSERT_GE(cases.size(), 200u);
  for (const auto& c : cases) {
    EXPECT_EQ(split(c["text"].get<std::string>()), c["pieces"].get<Pieces>()) << c["text"];
  }
}

TEST(PreTokenizer, follows_the_ordered_alternation) {
  EXPECT_EQ(split("I'm DON'T"), (Pieces{"I'm", " DON'T"}));
  EXPECT_EQ(split("123 1234567"), (Pieces{"123", " ", "123", "456", "7"}));
  EXPECT_EQ(split("foo  bar   baz"), (Pieces{"foo", " ", " bar", "  ", " baz"}));
  EXPECT_EQ(split("\n\n\nx\r\ny"), (Pieces{"\n\n\n", "x", "\r\n", "y"}));
  EXPECT_EQ(split("HTTPServer"), (Pieces{"HTTPServer"}));
  EXPECT_EQ(split("x'\u017F"), (Pieces{"x'\u017F"}));  // simple folding: long s is an s
}

TEST(PreTokenizer, han_means_the_script_and_not_its_extensions) {
  // The prolonged sound mark has Han among its script extensions, but it is no Han character.
  EXPECT_EQ(split("中ー"), (Pieces{"中", "ー"}));
  EXPECT_EQ(split("中〇々"), (Pieces{"中〇々"}));
  EXPECT_EQ(split("\U00031350a"), (Pieces{"\U00031350", "a"}));  // Han since Unicode 15
}

TEST(PreTokenizer, whitespace_is_white_space_and_nothing_else) {
  EXPECT_EQ(split("a\u180E\u180Eb"), (Pieces{"a", "\u180E\u180E", "b"}));
  EXPECT_EQ(split("a\u2003\u2003b"), (Pieces{"a", "\u2003", "\u2003b"}));
  EXPECT_EQ(split("\x1C\x1C"
                  "1"),
            (Pieces{"\x1C\x1C", "1"}));
  EXPECT_EQ(split(" \x1C"
                  "1"),
            (Pieces{" \x1C", "1"}));
}

TEST(PreTokenizer, a_run_as_long_as_a_chunk_is_one_piece) {
  for (const char* unit : {"a", "A", "ª", "中", "\u0301", "!", " ", "\n"}) {
    std::string run;
    for (int i = 0; i < 25'000; ++i) run += unit;
    EXPECT_EQ(split(run).size(), 1u) << unit;
  }
}

TEST(CutText, leaves_short_text_alone) {
  EXPECT_TRUE(cut_text("").empty());
  EXPECT_EQ(cut_text("abc def").size(), 1u);
}

TEST(CutText, cuts_runs_of_one_kind_at_25000_code_points) {
  std::string run;
  for (int i = 0; i < 25'000; ++i) run += "é";
  EXPECT_EQ(cut_text(run).size(), 1u);
  EXPECT_EQ(cut_text(run + "x").at(0), run);
  EXPECT_EQ(cut_text(run + " " + run + " ").size(), 1u);
  const std::string spaces(60'000, ' ');
  const auto chunks = cut_text("a" + spaces);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[0].size(), 25'001u);
  EXPECT_EQ(chunks[1].size(), 25'000u);
  EXPECT_EQ(chunks[2].size(), 10'000u);
}

TEST(CutText, file_separators_are_whitespace_here) {
  const std::string letters(20'000, 'a');
  EXPECT_EQ(cut_text(letters + "\x1C" + letters).size(), 1u);
  EXPECT_EQ(cut_text(letters + "!" + letters).size(), 2u);
}

TEST(CutText, cuts_every_400000_code_points_and_starts_counting_anew) {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "é bcdefg ";  // 9 code points
  const auto chunks = cut_text(text);
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_EQ(chunks[0].size(), 444'445u);  // 44,444 whole units of 10 bytes and "é bc"
  EXPECT_EQ(chunks[0].size() + chunks[1].size(), text.size());
}

}  // namespace
}  // namespace tandem
