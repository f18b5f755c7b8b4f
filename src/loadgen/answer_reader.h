// Turns the response to one request into a record. Internal to the folder.
#pragma once

#include <string>
#include <string_view>

#include "loadgen/completion_chunk.h"
#include "loadgen/http_client.h"
#include "loadgen/load_run.h"
#include "loadgen/sse_reader.h"

namespace tandem::loadgen {

// Single owner. The only measure of success: status 200, an event stream of chunks with a finish
// reason, and [DONE].
class AnswerReader {
 public:
  void on_head(int status, std::string_view content_type);
  // False once the answer is lost: nothing more of it needs to be read.
  bool on_body(std::string_view bytes, double now_s);
  void on_end(CallEnd end, const std::string& detail);

  RequestRecord& record() { return record_; }
  std::int64_t pieces() const { return pieces_; }
  // What was answered, for the conversation's next prompt.
  const std::string& content() const { return content_; }
  const std::string& reasoning() const { return reasoning_; }

 private:
  void on_data(std::string_view data, double now_s);
  void fail(std::string error, std::string detail);

  RequestRecord record_;
  SseReader events_;
  int status_ = 0;
  std::string error_body_;  // of a status other than 200
  std::string content_;
  std::string reasoning_;
  std::string finish_reason_;
  std::int64_t pieces_ = 0;
  bool done_ = false;
};

}  // namespace tandem::loadgen
