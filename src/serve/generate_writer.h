// Answers POST /generate, whole or as a stream of all that there is so far.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/answer_writer.h"
#include "serve/http.h"
#include "text/tokenizer.h"

namespace tandem {

struct GenerateWriterOptions {
  std::string id;
  int choices = 1;                            // of each prompt
  std::vector<std::vector<TokenId>> prompts;  // ids of each
  bool is_list = false;                       // the body is a list although it has one item
  bool stream = false;
  bool logprobs = false;
  bool top_logprobs = false;
  std::int64_t logprob_start = -1;   // of the prompt; -1: none
  const Tokenizer* texts = nullptr;  // set: log-probs carry their tokens' text
};

class GenerateWriter final : public AnswerWriter {
 public:
  GenerateWriter(std::shared_ptr<HttpExchange> exchange, GenerateWriterOptions options);

  void begin() override;
  void on_events(int choice, const std::vector<OutputEvent>& events,
                 std::span<const SampledToken> tokens) override;
  void on_end(int choice, const AnswerResult& result) override;
  void complete() override;
  void fail(const Status& status) override;

 private:
  struct Item {
    std::string text;
    std::vector<SampledToken> tokens;  // all that were sampled, the stop id included
    std::shared_ptr<const PromptLogprobs> prompt;
    std::optional<AnswerResult> result;
  };

  bool is_list() const { return options_.is_list || items_.size() > 1; }
  const std::vector<TokenId>& prompt_of(int choice) const;
  std::string body(int choice) const;
  void send(int choice);

  const std::shared_ptr<HttpExchange> exchange_;
  const GenerateWriterOptions options_;
  std::vector<Item> items_;
};

}  // namespace tandem
