// Answers POST /v1/completions, whole or as a stream.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/answer_usage.h"
#include "serve/answer_writer.h"
#include "serve/completion_response.h"
#include "serve/http.h"

namespace tandem {

struct CompletionWriterOptions {
  ChatHead head = {};
  int choices = 1;                            // of each prompt
  std::vector<std::vector<TokenId>> prompts;  // ids of each
  std::vector<std::string> echoes = {};       // their texts, if the answer begins with them
  bool score_only = false;                    // the prompt's log-probs are the answer
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  CompletionExtras extras = {};
};

class CompletionWriter final : public AnswerWriter {
 public:
  CompletionWriter(std::shared_ptr<HttpExchange> exchange, CompletionWriterOptions options);

  void begin() override;
  void on_events(int choice, const std::vector<OutputEvent>& events,
                 std::span<const SampledToken> tokens) override;
  void on_end(int choice, const AnswerResult& result) override;
  void complete() override;
  void fail(const Status& status) override;

 private:
  std::size_t prompt_of(int choice) const {
    return static_cast<std::size_t>(choice / options_.choices);
  }
  void begin_choice(int choice);
  void add_prompt_tokens(CompletionPiece& piece, const SampledToken& first);
  void flush(CompletionPiece& piece);

  const std::shared_ptr<HttpExchange> exchange_;
  const CompletionWriterOptions options_;
  UsageCount usage_;
  std::vector<CompletionPiece> pieces_;  // what of each choice was not sent yet
};

}  // namespace tandem
