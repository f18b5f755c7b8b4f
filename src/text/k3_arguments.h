// The arguments of one Kimi K3 tool call: typed channels in, JSON text out, as it comes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/utf8.h"

namespace tandem {

// The concatenation of all results from a call's opening to close() is a JSON object, unless the
// model wrote a broken `json` block: then it is that block as it stands. A repeated key is
// repeated; readers take the last. Single owner.
class K3Arguments {
 public:
  // Each returns the JSON text that is certain now. An open channel is closed first.
  std::string open_argument(std::string_view key, std::string_view type);
  std::string open_json();
  std::string text(std::string_view bytes);
  std::string close_channel();
  // End of the call.
  std::string close();

 private:
  enum class Channel { kNone, kString, kTyped, kJson };
  Channel channel_ = Channel::kNone;
  Utf8Stream string_;                // kString
  std::string value_;                // bytes of kTyped and kJson
  std::optional<std::string> json_;  // a json block; counts only if it is all there is
  bool has_arguments_ = false;
};

}  // namespace tandem
