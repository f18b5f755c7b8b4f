#include "text/rank_table.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

#include "text/test_support.h"

namespace tandem {
namespace {

using Ids = std::vector<TokenId>;

// The 256 bytes and then `extra` lines.
std::string byte_lines(const std::string& extra) {
  constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string file;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    file += fmt::format("{}{}== {}\n", kAlphabet[byte >> 2], kAlphabet[(byte & 3) << 4], byte);
  }
  return file + extra;
}

std::string error_of(const std::string& file) {
  const auto table = RankTable::parse(file, "f.model");
  return table ? "no error" : table.error().message;
}

// The rule as the specification words it; quadratic.
Ids encode_slowly(const RankTable& table, std::string_view word) {
  if (table.find(word) != RankTable::kNone) return {table.find(word)};
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  for (;;) {
    std::size_t best = parts.size();
    TokenId best_rank = RankTable::kNone;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const TokenId rank = table.find(parts[i] + parts[i + 1]);
      if (rank == RankTable::kNone || (best_rank != RankTable::kNone && rank >= best_rank))
        continue;
      best = i;
      best_rank = rank;
    }
    if (best_rank == RankTable::kNone) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  Ids ids;
  for (const std::string& part : parts) ids.push_back(table.find(part));
  return ids;
}

TEST(RankTable, joins_the_lowest_rank_first_and_the_leftmost_of_equals) {
  // 256 "aa", 257 "ab", 258 "aaa"
  const RankTable table =
      RankTable::parse(byte_lines("YWE= 256\nYWI= 257\nYWFh 258\n"), "f").value();
  MergeScratch scratch;
  const auto encode = [&](std::string_view word) {
    Ids ids;
    table.encode(word, &scratch, &ids);
    return ids;
  };
  EXPECT_EQ(encode("aab"), (Ids{256, 'b'}));
  EXPECT_EQ(encode("aaaa"), (Ids{256, 256}));
  EXPECT_EQ(encode("aaab"), (Ids{256, 257}));
  EXPECT_EQ(encode("aaa"), (Ids{258}));  // in the table: mapped directly
  EXPECT_EQ(encode("aaaaaa"), (Ids{256, 256, 256}));
  EXPECT_EQ(encode("aaaaa"), (Ids{256, 258}));
  EXPECT_EQ(encode("b"), (Ids{'b'}));
}

TEST(RankTable, agrees_with_the_definition_on_random_tables_and_words) {
  EXPECT_TRUE(rc::check([] {
    const auto letter = rc::gen::elementOf(std::string("abc"));
    auto words = *rc::gen::unique<std::vector<std::string>>(
        rc::gen::resize(12, rc::gen::container<std::string>(letter)));
    std::string extra;
    TokenId rank = 256;
    constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (const std::string& word : words) {
      if (word.size() != 3 && word.size() != 6) continue;  // no padding needed
      std::string encoded;
      for (std::size_t i = 0; i < word.size(); i += 3) {
        const auto at = [&](std::size_t k) { return static_cast<unsigned>(word[i + k]); };
        const unsigned bits = at(0) << 16 | at(1) << 8 | at(2);
        for (int shift = 18; shift >= 0; shift -= 6) encoded += kAlphabet[bits >> shift & 63];
      }
      extra += fmt::format("{} {}\n", encoded, rank++);
    }
    for (const char* pair : {"YWE=", "YWI=", "Y2E=", "YmM=", "YmI="}) {  // aa ab ca bc bb
      extra += fmt::format("{} {}\n", pair, rank++);
    }
    const RankTable table = RankTable::parse(byte_lines(extra), "f").value();
    const auto text = *rc::gen::resize(40, rc::gen::container<std::string>(letter));
    RC_PRE(!text.empty());
    MergeScratch scratch;
    Ids ids;
    table.encode(text, &scratch, &ids);
    RC_ASSERT(ids == encode_slowly(table, text));
  }));
}

TEST(RankTable, long_words_take_time_n_log_n) {
  const Tokenizer& demo = demo_tokenizer();
  std::string word;
  for (int i = 0; i < 24'000; ++i) word += "etaoin"[i * 7 % 6];
  const Ids ids = demo.encode_plain(word);  // a quadratic merge would take seconds
  EXPECT_EQ(demo.decode(ids), word);
}

TEST(RankTable, names_the_file_the_line_and_the_expectation) {
  EXPECT_EQ(error_of(byte_lines("a b c\n")), "f.model:257: expected \"base64 rank\" on each line");
  EXPECT_EQ(error_of(byte_lines("YWE 256\n")),
            "f.model:257: expected \"base64 rank\" on each line");
  EXPECT_EQ(error_of(byte_lines("YW=E 256\n")),
            "f.model:257: expected \"base64 rank\" on each line");
  EXPECT_EQ(error_of(byte_lines("YWE= 25x\n")),
            "f.model:257: expected \"base64 rank\" on each line");
  EXPECT_EQ(error_of(byte_lines("YWE= -1\n")),
            "f.model:257: expected \"base64 rank\" on each line");
  EXPECT_EQ(error_of(byte_lines("YWE= 7\n")),
            "f.model:257: rank 7 is already on line 8; expected each rank once");
  EXPECT_EQ(error_of(byte_lines("YWE= 257\n")),
            "f.model: no line has rank 256; expected ranks 0..257 without a hole");
  EXPECT_EQ(error_of(byte_lines("YWE= 4000000000\n")),
            "f.model:257: rank 4000000000 in a file of 258 lines; expected ranks without a hole");
  EXPECT_EQ(error_of(byte_lines("YQ== 256\n")),
            "f.model: ranks 97 and 256 have the same bytes; expected each token once");
  EXPECT_EQ(error_of("YWE= 0\n"), "f.model: no token for the single byte 0x00; expected all 256");
  EXPECT_EQ(error_of(""), "f.model: no token for the single byte 0x00; expected all 256");
  const auto missing = RankTable::load("/nonexistent/tiktoken.model");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, StatusCode::kNotFound);
  EXPECT_EQ(missing.error().message, "/nonexistent/tiktoken.model: expected a readable file");
}

}  // namespace
}  // namespace tandem
