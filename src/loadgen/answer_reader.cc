#include "loadgen/answer_reader.h"

namespace tandem::loadgen {
namespace {

constexpr std::size_t kMaxErrorBytes = 64 << 10;

const char* name_of(CallEnd end) {
  switch (end) {
    case CallEnd::kConnect:
      return "no connection";
    case CallEnd::kCut:
      return "cut off";
    case CallEnd::kMalformed:
      return "not HTTP";
    case CallEnd::kTimeout:
      return "timeout";
    case CallEnd::kComplete:
      break;
  }
  return "";
}

}  // namespace

void AnswerReader::fail(std::string error, std::string detail) {
  if (!record_.error.empty()) return;  // the first reason is the reason
  record_.error = std::move(error);
  record_.detail = std::move(detail);
}

void AnswerReader::on_head(int status, std::string_view content_type) {
  status_ = status;
  if (status == 200 && !content_type.starts_with("text/event-stream")) {
    fail("not a stream", std::string(content_type.substr(0, 100)));
  }
}

bool AnswerReader::on_body(std::string_view bytes, double now_s) {
  if (status_ != 200) {
    error_body_ += bytes.substr(0, kMaxErrorBytes - std::min(kMaxErrorBytes, error_body_.size()));
    return true;
  }
  if (record_.error.empty() &&
      !events_.feed(bytes, [&](std::string_view data) { on_data(data, now_s); })) {
    fail("garbage", "an event without end");
  }
  return record_.error.empty();
}

void AnswerReader::on_data(std::string_view data, double now_s) {
  if (done_ || !record_.error.empty()) return;
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  auto chunk = parse_completion_chunk(data);
  if (!chunk) return fail("garbage", chunk.error().message);
  if (!chunk->error.empty()) return fail("error in the stream", chunk->error);
  if (chunk->shows_something()) {
    if (pieces_ == 0) record_.first_s = now_s;
    if (pieces_ > 0) record_.gaps_ms.push_back((now_s - record_.last_s) * 1000);
    record_.last_s = now_s;
    ++pieces_;
  }
  content_ += chunk->content;
  reasoning_ += chunk->reasoning;
  if (chunk->finish_reason) finish_reason_ = *chunk->finish_reason;
  if (chunk->usage) {
    record_.prompt_tokens = chunk->usage->prompt_tokens;
    record_.completion_tokens = chunk->usage->completion_tokens;
    record_.cached_tokens = chunk->usage->cached_tokens;
  }
}

void AnswerReader::on_end(CallEnd end, const std::string& detail) {
  if (end != CallEnd::kComplete) return fail(name_of(end), detail);
  if (status_ != 200) return fail(fmt::format("HTTP {}", status_), error_summary(error_body_));
  if (!done_) return fail("cut off", "the stream ended without [DONE]");
  if (finish_reason_.empty()) return fail("unfinished", "no finish_reason");
  if (finish_reason_ == "abort") return fail("unfinished", "finish_reason abort");
}

}  // namespace tandem::loadgen
