#include "text/detokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

#include "text/test_support.h"

namespace tandem {
namespace {

TEST(Detokenizer, streams_nothing_until_a_character_is_complete) {
  const auto tokenizer = byte_k3_tokenizer();
  Detokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.feed(0xF0), "");
  EXPECT_EQ(detokenizer.feed(0x9F), "");
  EXPECT_EQ(detokenizer.feed(0xAB), "");
  EXPECT_EQ(detokenizer.feed(0xA0), "🫠");
  EXPECT_EQ(detokenizer.flush(), "");
}

TEST(Detokenizer, leaves_special_tokens_out_unless_told_otherwise) {
  const Tokenizer& tokenizer = demo_tokenizer();
  const auto read = [&](SpecialText special) {
    Detokenizer detokenizer(tokenizer, special);
    std::string text;
    for (const TokenId id : tokenizer.encode_markup("a[EOS]b<|open|>"))
      text += detokenizer.feed(id);
    return text + detokenizer.flush();
  };
  EXPECT_EQ(read(SpecialText::kSkip), "ab<|open|>");
  EXPECT_EQ(read(SpecialText::kKeep), "a[EOS]b<|open|>");
}

TEST(Detokenizer, streams_what_decode_returns_for_any_ids) {
  const Tokenizer& tokenizer = demo_tokenizer();
  EXPECT_TRUE(rc::check([&] {
    // Single bytes often: they make broken characters.
    const auto ids = *rc::gen::container<std::vector<TokenId>>(
        rc::gen::oneOf(rc::gen::inRange<TokenId>(0, 256), rc::gen::inRange<TokenId>(-1, 4097)));
    for (const SpecialText special : {SpecialText::kKeep, SpecialText::kSkip}) {
      Detokenizer detokenizer(tokenizer, special);
      std::string text;
      for (const TokenId id : ids) {
        const std::string delta = detokenizer.feed(id);
        RC_ASSERT(is_valid_utf8(delta));
        text += delta;
      }
      RC_ASSERT(text + detokenizer.flush() == tokenizer.decode(ids, special));
    }
  }));
}

}  // namespace
}  // namespace tandem
