#include "text/tokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#include "support/temp_folder.h"
#include "text/test_support.h"
#include "text/utf8.h"

namespace tandem {
namespace {

using Ids = std::vector<TokenId>;

std::string to_utf8(char32_t c) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | c >> 6), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | c >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | c >> 18), tail(12), tail(6), tail(0)};
}

// Valid text over all of Unicode, with common characters common.
rc::Gen<std::string> any_text() {
  const auto code_point = rc::gen::suchThat(
      rc::gen::oneOf(rc::gen::inRange<char32_t>(0, 0x80), rc::gen::inRange<char32_t>(0, 0x3100),
                     rc::gen::inRange<char32_t>(0, 0x110000)),
      [](char32_t c) { return c < 0xD800 || c > 0xDFFF; });
  return rc::gen::map(rc::gen::container<std::vector<char32_t>>(code_point),
                      [](const std::vector<char32_t>& code_points) {
                        std::string text;
                        for (const char32_t c : code_points) text += to_utf8(c);
                        return text;
                      });
}

TEST(Tokenizer, decoding_returns_any_valid_text) {
  const Tokenizer& tokenizer = demo_tokenizer();
  EXPECT_TRUE(rc::check([&] {
    const std::string text = *any_text();
    RC_ASSERT(tokenizer.decode(tokenizer.encode_plain(text)) == text);
    RC_ASSERT(tokenizer.decode(tokenizer.encode_markup(text)) == text);
  }));
}

TEST(Tokenizer, plain_text_never_becomes_a_special_id) {
  const Tokenizer& tokenizer = demo_tokenizer();
  std::string all;
  for (TokenId id = tokenizer.rank_count(); id < tokenizer.vocab_size(); ++id) {
    const std::string name(tokenizer.token_bytes(id));
    all += name;
    for (const std::string& text : {name, "x" + name + "y", name + name}) {
      for (const TokenId plain : tokenizer.encode_plain(text))
        EXPECT_LT(plain, tokenizer.rank_count());
    }
    EXPECT_EQ(tokenizer.encode_markup(name), Ids{id});
    EXPECT_EQ(tokenizer.id_of(name), id);
  }
  const auto count = static_cast<std::size_t>(tokenizer.vocab_size() - tokenizer.rank_count());
  EXPECT_EQ(tokenizer.encode_markup(all).size(), count);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode_plain(all)), all);
}

TEST(Tokenizer, invalid_utf8_is_read_as_replacement_characters) {
  const Tokenizer& tokenizer = demo_tokenizer();
  EXPECT_EQ(tokenizer.encode_plain("ab\xFF c\xE4\xB8"), tokenizer.encode_plain("ab\uFFFD c\uFFFD"));
  EXPECT_EQ(tokenizer.encode_markup("\xC3<|open|>"), tokenizer.encode_markup("\uFFFD<|open|>"));
}

TEST(Tokenizer, each_chunk_of_long_text_is_encoded_by_itself) {
  const Tokenizer& tokenizer = demo_tokenizer();
  std::string text;
  for (int i = 0; i < 4000; ++i) text += "abcdefg";
  Ids expected = tokenizer.encode_plain(std::string_view(text).substr(0, 25'000));
  const Ids rest = tokenizer.encode_plain(std::string_view(text).substr(25'000));
  expected.insert(expected.end(), rest.begin(), rest.end());
  EXPECT_EQ(tokenizer.encode_plain(text), expected);
}

TEST(Tokenizer, decoding_can_leave_out_special_tokens_but_keeps_structural_ones) {
  const Tokenizer& tokenizer = demo_tokenizer();
  const Ids ids = tokenizer.encode_markup("a<|open|>b[EOS]<|reserved_token_4090|>c");
  EXPECT_EQ(tokenizer.decode(ids), "a<|open|>b[EOS]<|reserved_token_4090|>c");
  EXPECT_EQ(tokenizer.decode(ids, SpecialText::kSkip), "a<|open|>bc");
  EXPECT_TRUE(tokenizer.is_special(*tokenizer.id_of("[EOS]")));
  EXPECT_FALSE(tokenizer.is_special(*tokenizer.id_of("<|sep|>")));
  EXPECT_FALSE(tokenizer.is_special('a'));
}

TEST(Tokenizer, ids_outside_the_vocabulary_have_no_bytes) {
  const Tokenizer& tokenizer = demo_tokenizer();
  EXPECT_EQ(tokenizer.vocab_size(), 4096);
  EXPECT_TRUE(tokenizer.contains(4095));
  for (const TokenId id : {-1, 4096, 1 << 30}) {
    EXPECT_FALSE(tokenizer.contains(id));
    EXPECT_TRUE(tokenizer.token_bytes(id).empty());
    EXPECT_FALSE(tokenizer.is_special(id));
  }
}

TEST(Tokenizer, load_names_the_file_that_is_wrong) {
  namespace fs = std::filesystem;
  const fs::path demo = fs::path(TANDEM_SOURCE_DIR) / "models/demo";
  const TempFolder temp;
  const fs::path& folder = temp.path();
  const auto error_of = [&](std::int64_t vocab_size) {
    const auto tokenizer = Tokenizer::load(folder, vocab_size);
    return tokenizer ? "no error" : tokenizer.error().message.substr(folder.string().size());
  };
  EXPECT_EQ(error_of(4096), "/tiktoken.model: expected a readable file");
  fs::copy_file(demo / "tiktoken.model", folder / "tiktoken.model");
  EXPECT_EQ(error_of(4096), "/tokenizer_config.json: expected a readable file");
  fs::copy_file(demo / "tokenizer_config.json", folder / "tokenizer_config.json");
  EXPECT_EQ(error_of(4096), "no error");
  EXPECT_EQ(error_of(4070),
            "/tokenizer_config.json: special token \"<|media_pad|>\": id 4070 is out of range; "
            "expected 4064..4069");
  EXPECT_EQ(error_of(4000),
            "/tokenizer_config.json: vocab_size 4000 is smaller than the 4064 byte-pair ranks");
  EXPECT_EQ(error_of(1LL << 40),
            "/tokenizer_config.json: vocab_size 1099511627776 is out of range");
}

TEST(Tokenizer, may_be_used_by_several_threads_at_once) {
  const Tokenizer& tokenizer = demo_tokenizer();
  const std::string text = "Several threads, one tokenizer: 中文 <|open|> and 12345 numbers.";
  const Ids expected = tokenizer.encode_markup(text);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) EXPECT_EQ(tokenizer.encode_markup(text), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tandem
