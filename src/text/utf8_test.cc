#include "text/utf8.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

namespace tandem {
namespace {

constexpr std::string_view kBad = kReplacementCharacter;

std::string join(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts) out += part;
  return out;
}

TEST(Utf8, replaces_each_maximal_invalid_subpart_once) {
  EXPECT_EQ(repair_utf8("a\xFFz"), join({"a", kBad, "z"}));
  EXPECT_EQ(repair_utf8("\xC0\xAF"), join({kBad, kBad}));                      // overlong
  EXPECT_EQ(repair_utf8("\xE0\x80\x80"), join({kBad, kBad, kBad}));            // overlong
  EXPECT_EQ(repair_utf8("\xED\xA0\x80"), join({kBad, kBad, kBad}));            // surrogate
  EXPECT_EQ(repair_utf8("\xF4\x90\x80\x80"), join({kBad, kBad, kBad, kBad}));  // > U+10FFFF
  EXPECT_EQ(repair_utf8("\xF0\x9F\xAB!"), join({kBad, "!"}));  // one subpart of three bytes
  EXPECT_EQ(repair_utf8("\xE4\xB8\xE4\xB8\xAD"), join({kBad, "\xE4\xB8\xAD"}));
  EXPECT_EQ(repair_utf8("x\xF0\x9F"), join({"x", kBad}));
}

TEST(Utf8, keeps_valid_text_including_a_real_replacement_character) {
  const std::string text =
      join({"a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\xAB\xA0", kBad, std::string_view("\0", 1)});
  EXPECT_TRUE(is_valid_utf8(text));
  EXPECT_EQ(repair_utf8(text), text);
  EXPECT_FALSE(is_valid_utf8("\xE4\xB8"));
}

TEST(Utf8, blank_means_python_whitespace_only) {
  EXPECT_TRUE(is_blank(""));
  EXPECT_TRUE(is_blank(" \t\r\n\x1C\x1F\xC2\x85\xE3\x80\x80"));
  EXPECT_FALSE(is_blank(" x"));
  EXPECT_FALSE(is_blank("\xE2\x80\x8B"));  // zero width space is no White_Space
}

TEST(Utf8Stream, holds_a_character_back_until_it_is_complete) {
  Utf8Stream stream;
  EXPECT_EQ(stream.feed("\xF0\x9F"), "");
  EXPECT_EQ(stream.feed("\xAB"), "");
  EXPECT_EQ(stream.feed("\xA0"), "\xF0\x9F\xAB\xA0");
  EXPECT_EQ(stream.flush(), "");
}

TEST(Utf8Stream, reports_impossible_bytes_at_once_and_passes_real_replacement_characters) {
  Utf8Stream stream;
  EXPECT_EQ(stream.feed("\xFF"), kBad);
  EXPECT_EQ(stream.feed(kBad), kBad);
  EXPECT_EQ(stream.feed("\xE4"), "");
  EXPECT_EQ(stream.feed("x"), join({kBad, "x"}));
}

TEST(Utf8Stream, flushes_a_cut_off_character_as_one_replacement) {
  Utf8Stream stream;
  EXPECT_EQ(stream.feed("ok\xF0\x9F\xAB"), "ok");
  EXPECT_EQ(stream.flush(), kBad);
  EXPECT_EQ(stream.flush(), "");
}

TEST(Utf8Stream, gives_the_same_text_for_any_cut_of_the_bytes) {
  EXPECT_TRUE(rc::check([] {
    // Bytes that often form characters, and often almost do.
    const auto bytes = *rc::gen::container<std::string>(rc::gen::elementOf(
        std::string("a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\xAB\xA0\xFF\xED\x80\xBF\xEF\xBD\xF4\x90")));
    Utf8Stream stream;
    std::string text;
    for (std::size_t at = 0; at < bytes.size();) {
      const auto n = *rc::gen::inRange<std::size_t>(1, 5);
      text += stream.feed(std::string_view(bytes).substr(at, n));
      RC_ASSERT(is_valid_utf8(text));
      at += n;
    }
    text += stream.flush();
    RC_ASSERT(text == repair_utf8(bytes));
  }));
}

}  // namespace
}  // namespace tandem
