// The parsers behind make_output_parser().
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "text/output_parser.h"

namespace tandem {

std::unique_ptr<OutputParser> make_k3_output_parser(const Tokenizer& tokenizer,
                                                    OutputParserOptions options);
std::unique_ptr<OutputParser> make_kimi_linear_output_parser(const Tokenizer& tokenizer,
                                                             OutputParserOptions options);

// The id of a structural token, or an id that no token has.
inline TokenId structural_id(const Tokenizer& tokenizer, std::string_view name) {
  return tokenizer.id_of(name).value_or(-1);
}

}  // namespace tandem
