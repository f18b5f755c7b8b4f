// Any bytes may be a schema, a regular expression or a grammar; the first byte says which. Whatever
// compiles keeps within the limits, and its masks allow what it accepts and nothing else.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/grammar/matcher.h"
#include "text/grammar/state_mask.h"
#include "text/utf8.h"

namespace {

using namespace tandem;

// Small, so that an input takes milliseconds.
constexpr GrammarLimits kLimits{.source_bytes = 4096, .steps = 300'000, .states = 20'000};

Grammar::Vocabulary make_vocabulary() {
  static std::string bytes(256, '\0');
  std::vector<std::string_view> tokens;
  for (std::size_t i = 0; i < 256; ++i) {
    bytes[i] = static_cast<char>(i);
    tokens.push_back(std::string_view(bytes).substr(i, 1));
  }
  for (const std::string_view token :
       {"\",", "\":", "{\"", "\"}", "ab", "10", "\"}]", "\xC3\xA9"}) {
    tokens.push_back(token);
  }
  tokens.emplace_back();
  const std::array stop{static_cast<TokenId>(tokens.size() - 1)};
  return GrammarVocabulary::create(tokens, stop);
}

Result<Grammar::Pointer> compile(std::uint8_t kind, std::string_view source,
                                 const Grammar::Vocabulary& vocabulary) {
  if (kind % 4 == 1) return Grammar::regex(source, vocabulary, kLimits);
  if (kind % 4 == 2) return Grammar::ebnf(source, vocabulary, kLimits);
  return Grammar::json_schema(source, vocabulary, kLimits);
}

// Follows the tokens that a few bits choose.
void walk(const Grammar::Pointer& grammar, std::uint64_t bits) {
  GrammarMatcher matcher(grammar);
  std::vector<std::uint64_t> mask(matcher.mask_words());
  for (int step = 0; step < 8 && !matcher.is_finished(); ++step) {
    matcher.fill_mask(mask);
    std::vector<TokenId> allowed;
    const auto size = static_cast<TokenId>(grammar->vocabulary().size());
    for (TokenId id = 0; id < size; ++id) {
      if (grammar::has_bit(mask, id)) {
        allowed.push_back(id);
      } else {
        CHECK(!matcher.accept(id), "token {} was taken though masked", id);
      }
    }
    CHECK(!allowed.empty(), "nothing may follow");
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    const TokenId chosen = allowed[(bits >> 33) % allowed.size()];
    CHECK(matcher.accept(chosen), "token {} was refused though allowed", chosen);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Grammar::Vocabulary vocabulary = make_vocabulary();
  if (size == 0) return 0;
  const std::string_view source(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto grammar = compile(data[0], source, vocabulary);
  if (grammar) {
    CHECK((*grammar)->pushdown().state_count() <= 20'000u, "{} states",
          (*grammar)->pushdown().state_count());
    walk(*grammar, size * 0x9E3779B97F4A7C15u + data[size - 1]);
    return 0;
  }
  const Status& status = grammar.error();
  CHECK(status.code == StatusCode::kInvalidArgument, "code {}", to_string(status.code));
  CHECK(!status.message.empty() && status.message.size() < 1000, "{} bytes", status.message.size());
  CHECK(status.message.starts_with(status.field), "{} / {}", status.field, status.message);
  CHECK(is_valid_utf8(status.message), "{}", status.message);
  return 0;
}
