// The bodies that POST /v1/responses answers with: one response, or the events of a stream.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "serve/block_writer.h"
#include "serve/responses_request.h"

namespace tandem {

// What every response object of one request repeats.
struct ResponseHead {
  std::string id;               // "resp_" and hexadecimal digits, with which ids of items are made
  std::int64_t created_at = 0;  // seconds of Unix time
  std::string model;
  ResponsesRequest request = {};
};

// An answer as far as it has come; `status` is "in_progress" or how it ended.
struct ResponseProgress {
  const char* status = "in_progress";
  std::span<const AnswerBlock> blocks = {};
  const AnswerUsage* usage = nullptr;  // nullptr: not known yet
  const Status* error = nullptr;       // of a failed response
};

// "completed", or "incomplete" if max_output_tokens cut it off.
const char* response_status(const AnswerResult& result);

std::string response_body(const ResponseHead& head, const ResponseProgress& progress);

// Makes the events of a stream, numbered in the order of the calls; each call returns what is to be
// written. Every block is an item of its own.
class ResponseEvents {
 public:
  explicit ResponseEvents(ResponseHead head) : head_(std::move(head)) {}
  const ResponseHead& head() const { return head_; }

  std::string begin();
  std::string block_begin(std::size_t index, const AnswerBlock& block);
  std::string block_text(std::size_t index, const AnswerBlock& block, std::string_view piece);
  std::string block_end(std::size_t index, const AnswerBlock& block);
  // response.completed, response.incomplete or, after an "error" event, response.failed.
  std::string end(const ResponseProgress& progress);

 private:
  const ResponseHead head_;
  std::int64_t next_number_ = 0;
};

}  // namespace tandem
