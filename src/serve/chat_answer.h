// Gathers what the engine produces for one chat request and answers with it, whole or as a stream.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/answer_sink.h"
#include "serve/http.h"
#include "serve/openai_response.h"

namespace tandem {

struct ChatAnswerOptions {
  ChatHead head = {};
  int choices = 1;
  std::int64_t prompt_tokens = 0;
  bool stream = false;
  bool include_usage = false;           // a last chunk with the usage
  const Tokenizer* logprobs = nullptr;  // set if log-probs were asked for; outlives the answer
};

// Belongs to the network thread. What comes before begin() waits for it; what comes after the
// client has gone, or an error has ended the answer, is dropped.
class ChatAnswer {
 public:
  // `cancel` ends all of the engine's work for this answer.
  ChatAnswer(std::shared_ptr<HttpExchange> exchange, ChatAnswerOptions options);

  // The engine has taken every choice. Once `cancel` was called nothing more is sent.
  void begin(std::function<void()> cancel);
  // The engine has refused a choice.
  void refuse(HttpResponse response);

  void on_events(int choice, std::vector<OutputEvent> events, std::optional<SampledToken> token);
  void on_end(int choice, const AnswerResult& result);

 private:
  enum class State { kWaiting, kAnswering, kDone };

  struct Progress {
    ChatChoice choice;                 // `answer` stays empty in a stream
    std::vector<SampledToken> unsent;  // stream: tokens whose log-probs await a chunk
    std::int64_t tokens = 0;
    std::int64_t reasoning_tokens = 0;  // up to the last one that brought thinking to light
  };

  void stream_events(int choice, const std::vector<OutputEvent>& events);
  TokenLogprobs unsent_logprobs(const Progress& progress) const;
  void fail(const Status& status);
  void complete();
  void send(const std::string& chunk);

  const std::shared_ptr<HttpExchange> exchange_;
  const ChatAnswerOptions options_;
  State state_ = State::kWaiting;
  std::vector<std::function<void()>> early_;  // calls that came before begin()
  std::function<void()> cancel_;
  std::vector<Progress> progress_;
  int open_choices_;
  ChatUsage usage_;
};

}  // namespace tandem
