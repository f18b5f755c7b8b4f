// What the chat formats share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/chat.h"

namespace tandem {

// An `invalid` status at a request field.
tl::unexpected<Status> invalid_field(std::string field, std::string message);

// Collects segments and encodes each by itself. Empty ones are left out.
class PromptBuilder {
 public:
  // kMerge: neighbouring plain texts are one segment, so that byte pairs join across them.
  enum class Neighbours { kKeep, kMerge };

  PromptBuilder(const Tokenizer& tokenizer, Neighbours neighbours)
      : tokenizer_(tokenizer), neighbours_(neighbours) {}

  void markup(std::string_view text) { add(text, Segment::Mode::kMarkup); }
  void plain(std::string_view text) { add(text, Segment::Mode::kPlain); }
  // The prompt; the builder is used up.
  Prompt finish(OutputStart start, int tool_calls_before);

 private:
  void add(std::string_view text, Segment::Mode mode);

  const Tokenizer& tokenizer_;
  const Neighbours neighbours_;
  std::vector<Segment> segments_;
};

// Messages present, roles known, tools and tool calls only where they belong, a final assistant
// message where one is to be continued.
Result<void> check_messages(const ChatRequest& request);

// The tools as one JSON array, compact, keys sorted at every level. `field` names them in errors.
Result<std::string> tools_json(const std::vector<std::string>& tools, const std::string& field);

int count_tool_calls(const ChatRequest& request);

// Implementations; `tokenizer` must outlive them.
std::unique_ptr<ChatFormat> make_k3_chat_format(const Tokenizer& tokenizer);
std::unique_ptr<ChatFormat> make_kimi_linear_chat_format(const Tokenizer& tokenizer);

}  // namespace tandem
