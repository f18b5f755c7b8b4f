// The inside of a Kimi K3 marker: `call tool="f" index="1"` between <|open|> and <|sep|>.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

struct XtmlMarker {
  std::string tag;
  std::vector<std::pair<std::string, std::string>> attributes = {};  // unescaped, in order

  // The value of the last attribute `key`, empty if there is none.
  std::string_view attribute(std::string_view key) const;
};

// Never fails: whatever does not look like attributes is dropped.
XtmlMarker parse_xtml_marker(std::string_view text);

// `&` and `"` of an attribute value as `&amp;` and `&quot;`.
std::string escape_xtml_attribute(std::string_view value);

}  // namespace tandem
