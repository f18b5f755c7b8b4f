// Server-sent events (text/event-stream), read as they arrive.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace tandem::loadgen {

// Input may be cut anywhere, within a line end, too. Single owner.
class SseReader {
 public:
  using OnData = std::function<void(std::string_view data)>;

  // An event whose lines exceed this is an error.
  static constexpr std::size_t kMaxEventBytes = std::size_t{64} << 20;

  // Calls `on_data` for each event that `bytes` completes; fields other than data, and comments,
  // are dropped. False once an event is too large; no more should be fed then.
  bool feed(std::string_view bytes, const OnData& on_data);

 private:
  void end_line(const OnData& on_data);

  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_return_ = false;  // a line feed now belongs to the line end before it
};

}  // namespace tandem::loadgen
