#include "chat_bytes.h"

#include <fmt/core.h>

namespace tandem {
namespace {

struct Name {
  const char* text;
  bool is_special;
};

// Of the vendors' tables, what the chat formats name and some that they do not.
constexpr Name kK3Names[] = {{"[BOS]", true},
                             {"[EOS]", true},
                             {"<|end_of_msg|>", true},
                             {"<|open|>", false},
                             {"<|close|>", false},
                             {"<|sep|>", false},
                             {"[EOT]", true},
                             {"<|media_begin|>", true},
                             {"<|media_content|>", true},
                             {"<|media_end|>", true},
                             {"<|media_pad|>", true},
                             {"<osagent_mode>", true},
                             {"[start_header_id]", true}};
constexpr Name kKimiLinearNames[] = {{"[BOS]", true},
                                     {"[EOS]", true},
                                     {"<|im_end|>", true},
                                     {"<|im_user|>", true},
                                     {"<|im_assistant|>", true},
                                     {"<|im_system|>", true},
                                     {"<|im_middle|>", true},
                                     {"[EOT]", true},
                                     {"<|tool_calls_section_begin|>", false},
                                     {"<|tool_calls_section_end|>", false},
                                     {"<|tool_call_begin|>", false},
                                     {"<|tool_call_argument_begin|>", false},
                                     {"<|tool_call_end|>", false},
                                     {"<|media_begin|>", true},
                                     {"<|media_content|>", true},
                                     {"<|media_end|>", true},
                                     {"<|media_pad|>", true},
                                     {"<think>", false},
                                     {"</think>", false}};

std::vector<Name> names_of(ChatFamily family) {
  if (family == ChatFamily::kK3) return {std::begin(kK3Names), std::end(kK3Names)};
  return {std::begin(kKimiLinearNames), std::end(kKimiLinearNames)};
}

constexpr char kBase64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string rank_file() {
  std::string file;
  file.reserve(16 * kFirstSpecial);
  for (unsigned a = 0; a < 256; ++a) {
    file += fmt::format("{}{}== {}\n", kBase64[a >> 2], kBase64[(a & 3) << 4], a);
  }
  for (unsigned pair = 0; pair < 256 * 256; ++pair) {
    const unsigned a = pair >> 8, b = pair & 255;
    file += fmt::format("{}{}{}= {}\n", kBase64[a >> 2], kBase64[(a & 3) << 4 | b >> 4],
                        kBase64[(b & 15) << 2], kFirstPair + static_cast<TokenId>(pair));
  }
  return file;
}

}  // namespace

std::unique_ptr<Tokenizer> make_pair_tokenizer(ChatFamily family) {
  std::vector<SpecialToken> specials;
  TokenId id = kFirstSpecial;
  for (const Name& name : names_of(family)) specials.push_back({id++, name.text, name.is_special});
  return Tokenizer::create(RankTable::parse(rank_file(), "bytes and pairs").value(), specials, id)
      .value();
}

std::vector<std::string> special_names(ChatFamily family) {
  std::vector<std::string> names;
  for (const Name& name : names_of(family)) names.emplace_back(name.text);
  return names;
}

}  // namespace tandem
