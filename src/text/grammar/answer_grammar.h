// A whole answer as one grammar: thinking, content, tool calls, and the markers around them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/chat.h"
#include "text/grammar/grammar.h"
#include "text/tokenizer.h"

namespace tandem {

// What the answer to a chat request has to look like. Thinking is free, and comes to an end by
// itself only; content follows `format`; calls follow the tools' parameters.
struct AnswerShape {
  enum class Calls { kNone, kAllowed, kRequired };
  OutputStart start = OutputStart::kResponse;
  ResponseFormat format = {};
  Calls calls = Calls::kNone;
  bool one_call = false;  // at most
  // A schema that cannot be compiled is an error if the tool is strict, else it is dropped.
  std::vector<DeclaredTool> tools = {};

  // Names the grammar: equal for shapes of the same meaning.
  std::string key() const;
};

// nullopt if the request leaves the answer free. Errors name the field.
Result<std::optional<AnswerShape>> answer_shape(const ChatRequest& request, OutputStart start);

// The content alone, as routes without a chat have it; `format` is not kText.
Result<Grammar::Pointer> compile_text_grammar(const ResponseFormat& format,
                                              const Grammar::Vocabulary& vocabulary,
                                              const GrammarLimits& limits = {});

// `vocabulary` is the tokenizer's. Errors are the client's and name the field.
Result<Grammar::Pointer> compile_answer_grammar(const AnswerShape& shape, ChatFamily family,
                                                const Tokenizer& tokenizer,
                                                const Grammar::Vocabulary& vocabulary,
                                                const GrammarLimits& limits = {});

}  // namespace tandem
