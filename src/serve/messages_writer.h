// Answers POST /v1/messages, whole or as a stream.
#pragma once

#include <memory>
#include <utility>

#include "serve/block_writer.h"
#include "serve/http.h"
#include "serve/messages_response.h"

namespace tandem {

struct MessagesWriterOptions {
  MessageHead head = {};
  std::int64_t prompt_tokens = 0;
  bool stream = false;
};

// An answer that the server ended is an error: the protocol has no word for half a message.
class MessagesWriter final : public BlockWriter {
 public:
  MessagesWriter(std::shared_ptr<HttpExchange> exchange, MessagesWriterOptions options)
      : BlockWriter(options.prompt_tokens),
        exchange_(std::move(exchange)),
        options_(std::move(options)) {}

  void begin() override;
  void complete() override;
  void fail(const Status& status) override;

 private:
  void on_block_begin(std::size_t index, const AnswerBlock& block) override;
  void on_block_text(std::size_t index, const AnswerBlock& block, std::string_view piece) override;
  void on_block_end(std::size_t index, const AnswerBlock& block) override;

  void send(const MessageEvent& event);

  const std::shared_ptr<HttpExchange> exchange_;
  const MessagesWriterOptions options_;
};

}  // namespace tandem
