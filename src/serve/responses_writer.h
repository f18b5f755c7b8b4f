// Answers POST /v1/responses, whole or as a stream.
#pragma once

#include <memory>
#include <utility>

#include "serve/block_writer.h"
#include "serve/http.h"
#include "serve/responses_events.h"

namespace tandem {

// An answer that the server ended has failed.
class ResponsesWriter final : public BlockWriter {
 public:
  ResponsesWriter(std::shared_ptr<HttpExchange> exchange, ResponseHead head,
                  std::int64_t prompt_tokens)
      : BlockWriter(prompt_tokens), exchange_(std::move(exchange)), events_(std::move(head)) {}

  void begin() override;
  void complete() override;
  void fail(const Status& status) override;

 private:
  void on_block_begin(std::size_t index, const AnswerBlock& block) override;
  void on_block_text(std::size_t index, const AnswerBlock& block, std::string_view piece) override;
  void on_block_end(std::size_t index, const AnswerBlock& block) override;

  bool streams() const { return events_.head().request.stream; }

  const std::shared_ptr<HttpExchange> exchange_;
  ResponseEvents events_;
};

}  // namespace tandem
