// Answers POST /v1/chat/completions, whole or as a stream.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/answer_usage.h"
#include "serve/answer_writer.h"
#include "serve/http.h"
#include "serve/openai_request.h"
#include "serve/openai_response.h"

namespace tandem {

struct ChatWriterOptions {
  ChatHead head = {};
  int choices = 1;
  std::int64_t prompt_tokens = 0;
  bool stream = false;
  bool include_usage = false;     // a last chunk with the usage
  bool continuous_usage = false;  // and the tokens so far in every chunk
  ReasoningText reasoning = ReasoningText::kSeparate;
  ChatExtras extras = {};
};

class ChatWriter final : public AnswerWriter {
 public:
  ChatWriter(std::shared_ptr<HttpExchange> exchange, ChatWriterOptions options);

  void begin() override;
  void on_events(int choice, const std::vector<OutputEvent>& events,
                 std::span<const SampledToken> tokens) override;
  void on_end(int choice, const AnswerResult& result) override;
  void complete() override;
  void fail(const Status& status) override;

 private:
  struct Progress {
    ChatChoice choice;                 // `answer` stays empty in a stream
    std::vector<SampledToken> unsent;  // stream: tokens to be shown that await a chunk
  };

  void stream_event(int choice, const OutputEvent& event);
  ShownTokens unsent(const Progress& progress) const;
  void send(std::string chunk);

  const std::shared_ptr<HttpExchange> exchange_;
  const ChatWriterOptions options_;
  UsageCount usage_;
  std::vector<Progress> progress_;
};

}  // namespace tandem
