// For protocols that spread an assistant's turn, and the results of its calls, over several items.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "text/chat.h"

namespace tandem {

// The assistant's turn at the end of `messages`, begun if need be.
inline ChatMessage& assistant_turn(std::vector<ChatMessage>& messages) {
  if (messages.empty() || messages.back().role != "assistant") {
    messages.push_back({.role = "assistant"});
  }
  return messages.back();
}

// Whether `call_id` is a call of the last turn, which nothing but results has followed.
inline bool answers_last_turn(const std::vector<ChatMessage>& messages,
                              const std::string& call_id) {
  auto turn = messages.rbegin();
  while (turn != messages.rend() && turn->role == "tool") ++turn;
  if (turn == messages.rend()) return false;
  return std::any_of(turn->tool_calls.begin(), turn->tool_calls.end(),
                     [&](const ToolCall& call) { return call.id == call_id; });
}

}  // namespace tandem
