#include "text/stop_strings.h"

#include <algorithm>
#include <utility>

namespace tandem {

StopStringMatcher::StopStringMatcher(const std::vector<std::string>& stops, StopText text)
    : text_(text) {
  for (const std::string& stop : stops) {
    if (stop.empty()) continue;
    std::vector<std::size_t> fallback(stop.size() + 1, 0);
    for (std::size_t i = 1, border = 0; i < stop.size(); ++i) {
      while (border > 0 && stop[i] != stop[border]) border = fallback[border];
      if (stop[i] == stop[border]) ++border;
      fallback[i + 1] = border;
    }
    stops_.push_back({stop, std::move(fallback), 0});
  }
}

std::string StopStringMatcher::feed(std::string_view text) {
  if (stopped()) return {};
  for (std::size_t i = 0; i < text.size(); ++i) {
    const Stop* found = nullptr;  // the longest stop string complete here
    for (Stop& stop : stops_) {
      while (stop.matched > 0 && text[i] != stop.text[stop.matched]) {
        stop.matched = stop.fallback[stop.matched];
      }
      if (text[i] == stop.text[stop.matched]) ++stop.matched;
      const bool longest = found == nullptr || stop.text.size() > found->text.size();
      if (stop.matched == stop.text.size() && longest) found = &stop;
    }
    if (found == nullptr) continue;
    found_ = found->text;
    held_ += text.substr(0, i + 1);
    if (text_ == StopText::kCut) held_.resize(held_.size() - found_.size());
    return std::exchange(held_, {});
  }
  held_ += text;
  std::size_t hold = 0;
  for (const Stop& stop : stops_) hold = std::max(hold, stop.matched);
  std::string safe = held_.substr(0, held_.size() - hold);
  held_.erase(0, safe.size());
  return safe;
}

std::string StopStringMatcher::flush() {
  for (Stop& stop : stops_) stop.matched = 0;
  return std::exchange(held_, {});
}

}  // namespace tandem
