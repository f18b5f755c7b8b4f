// Prompts of routes without a chat: text, token ids, or a list of either.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "serve/json_fields.h"
#include "text/tokenizer.h"

namespace tandem {

struct TextPrompt {
  std::vector<TokenId> ids;
  std::string field;  // where the client put it: "prompt[2]"
};

struct TextPrompts {
  std::vector<TextPrompt> prompts;
  bool is_list = false;  // the client sent several, if only one
};

// A string, a list of strings, a list of ids or a list of those. Names of special tokens in text
// become these tokens: whoever prompts without a chat writes its markup.
Result<TextPrompts> read_text_prompts(const JsonValue& value, const std::string& field,
                                      const Tokenizer& tokenizer);

}  // namespace tandem
