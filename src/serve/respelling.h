// Errors of a chat request (text/chat.h) in the words of the protocol that it came by.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace tandem {

// `error` with its field, and that field at the front of its message, put as `field`.
inline Status with_field(Status error, std::string field) {
  if (error.message.starts_with(error.field)) {
    error.message.replace(0, error.field.size(), field);
  }
  error.field = std::move(field);
  return error;
}

inline void replace_first(std::string& text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
}

// A generation's grammars are compiled when it starts; so their errors are respelt by then.
}  // namespace tandem
