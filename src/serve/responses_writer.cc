#include "serve/responses_writer.h"

#include "serve/openai_error.h"
#include "serve/sse.h"

namespace tandem {

void ResponsesWriter::begin() {
  if (!streams()) return;
  start_events(*exchange_);
  exchange_->write(events_.begin());
}

void ResponsesWriter::on_block_begin(std::size_t index, const AnswerBlock& block) {
  if (streams()) exchange_->write(events_.block_begin(index, block));
}

void ResponsesWriter::on_block_text(std::size_t index, const AnswerBlock& block,
                                    std::string_view piece) {
  if (streams()) exchange_->write(events_.block_text(index, block, piece));
}

void ResponsesWriter::on_block_end(std::size_t index, const AnswerBlock& block) {
  if (streams()) exchange_->write(events_.block_end(index, block));
}

void ResponsesWriter::complete() {
  if (result().result.reason == FinishReason::kCancelled) {
    return fail({StatusCode::kUnavailable, "the server ended this answer before it was complete"});
  }
  const ResponseProgress progress{
      .status = response_status(result()), .blocks = blocks(), .usage = &usage()};
  if (!streams()) return exchange_->respond({.body = response_body(events_.head(), progress)});
  exchange_->write(events_.end(progress));
  exchange_->finish();
}

void ResponsesWriter::fail(const Status& status) {
  if (!streams()) return exchange_->respond(error_response(status));
  exchange_->write(events_.end({.status = "failed", .blocks = blocks(), .error = &status}));
  exchange_->finish();
}

}  // namespace tandem
