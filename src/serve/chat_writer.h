// Answers POST /v1/chat/completions, whole or as a stream.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/answer_usage.h"
#include "serve/answer_writer.h"
#include "serve/http.h"
#include "serve/openai_response.h"

namespace tandem {

struct ChatWriterOptions {
  ChatHead head = {};
  int choices = 1;
  std::int64_t prompt_tokens = 0;
  bool stream = false;
  bool include_usage = false;           // a last chunk with the usage
  const Tokenizer* logprobs = nullptr;  // set if log-probs were asked for; outlives the answer
};

class ChatWriter final : public AnswerWriter {
 public:
  ChatWriter(std::shared_ptr<HttpExchange> exchange, ChatWriterOptions options);

  void begin() override;
  void on_events(int choice, const std::vector<OutputEvent>& events,
                 const SampledToken* token) override;
  void on_end(int choice, const AnswerResult& result) override;
  void complete() override;
  void fail(const Status& status) override;

 private:
  struct Progress {
    ChatChoice choice;                 // `answer` stays empty in a stream
    std::vector<SampledToken> unsent;  // stream: tokens whose log-probs await a chunk
  };

  void stream_events(int choice, const std::vector<OutputEvent>& events);
  TokenLogprobs unsent_logprobs(const Progress& progress) const;

  const std::shared_ptr<HttpExchange> exchange_;
  const ChatWriterOptions options_;
  UsageCount usage_;
  std::vector<Progress> progress_;
};

}  // namespace tandem
