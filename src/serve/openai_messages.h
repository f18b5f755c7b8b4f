// The conversation of a chat request: messages and tools, from OpenAI's JSON to text/chat.h.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "serve/json_fields.h"
#include "text/chat.h"

namespace tandem {

struct Conversation {
  std::vector<ChatMessage> messages;
  bool continue_last = false;                  // the last message is marked "partial"
  std::unordered_set<std::string> tool_names;  // of the request and of its messages
};

// "messages". Content is a string, a list of text parts, or null where a role may do without.
// Tools of a system message are added to `conversation`.
Result<void> parse_messages(const JsonValue& value, Conversation& conversation);

// "tools" at `field`: each becomes the text of a JSON object. Names are checked, and are unique in
// the whole request.
Result<std::vector<std::string>> parse_tools(const JsonValue& value, const std::string& field,
                                             Conversation& conversation);

}  // namespace tandem
