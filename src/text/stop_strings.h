// Stop strings in streamed text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Whether the text that is shown ends before the stop string or with it.
enum class StopText { kCut, kKeep };

// Passes text on until a stop string is complete, and cuts there. Holds back the longest end of
// the text that a stop string may begin with. However the text is cut into pieces, the result is
// the same: the stop string that is complete first wins, of several at once the longest. Time is
// linear in the text times the number of stop strings. Single owner.
class StopStringMatcher {
 public:
  // Empty stop strings are ignored.
  explicit StopStringMatcher(const std::vector<std::string>& stops, StopText text = StopText::kCut);

  // The text that can be shown now; nothing once stopped.
  std::string feed(std::string_view text);
  // No stop string can follow: what was held back. The matcher is as new unless it has stopped.
  std::string flush();
  // A stop string was found.
  bool stopped() const { return !found_.empty(); }
  // The one that was found, else empty.
  const std::string& found() const { return found_; }

 private:
  // Knuth-Morris-Pratt.
  struct Stop {
    std::string text;
    std::vector<std::size_t> fallback;  // [bytes + 1] longest proper border of each prefix
    std::size_t matched = 0;            // bytes of `text` that the fed text ends in
  };

  const StopText text_;
  std::vector<Stop> stops_;
  std::string held_;
  std::string found_;
};

}  // namespace tandem
