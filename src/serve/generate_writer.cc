#include "serve/generate_writer.h"

#include <utility>

#include "serve/meta_info.h"
#include "serve/openai_error.h"
#include "serve/sse.h"

namespace tandem {

GenerateWriter::GenerateWriter(std::shared_ptr<HttpExchange> exchange,
                               GenerateWriterOptions options)
    : exchange_(std::move(exchange)),
      options_(std::move(options)),
      items_(options_.prompts.size() * static_cast<std::size_t>(options_.choices)) {}

const std::vector<TokenId>& GenerateWriter::prompt_of(int choice) const {
  return options_.prompts[static_cast<std::size_t>(choice / options_.choices)];
}

void GenerateWriter::begin() {
  if (options_.stream) start_events(*exchange_);
}

void GenerateWriter::on_events(int choice, const std::vector<OutputEvent>& events,
                               std::span<const SampledToken> tokens) {
  Item& item = items_[static_cast<std::size_t>(choice)];
  for (const OutputEvent& event : events) item.text += event.text;
  if (tokens.empty()) return;
  if (tokens.front().prompt != nullptr) item.prompt = tokens.front().prompt;
  item.tokens.insert(item.tokens.end(), tokens.begin(), tokens.end());
  if (options_.stream) send(choice);
}

void GenerateWriter::on_end(int choice, const AnswerResult& result) {
  items_[static_cast<std::size_t>(choice)].result = result;
  if (options_.stream) send(choice);
}

std::string GenerateWriter::body(int choice) const {
  const Item& item = items_[static_cast<std::size_t>(choice)];
  const std::vector<TokenId>& prompt = prompt_of(choice);
  OrderedJson json;
  json["text"] = item.text;
  json["output_ids"] = OrderedJson::array();
  for (const SampledToken& token : item.tokens) json["output_ids"].push_back(token.id);
  const std::string id =
      items_.size() == 1 ? options_.id : fmt::format("{}_{}", options_.id, choice);
  json["meta_info"] = meta_info_json(
      {.id = id,
       .result = item.result ? &*item.result : nullptr,
       .prompt_tokens = static_cast<std::int64_t>(prompt.size()),
       .completion_tokens = static_cast<std::int64_t>(item.tokens.size()),
       .cached_tokens = item.result ? item.result->result.usage.cache.cached_tokens : 0});
  OrderedJson& meta = json["meta_info"];
  if (options_.logprobs) {
    meta["output_token_logprobs"] = token_logprobs_json(item.tokens, options_.texts);
    if (options_.top_logprobs) {
      meta["output_top_logprobs"] = top_logprobs_json(item.tokens, options_.texts);
    }
  }
  if (item.prompt != nullptr) {
    OrderedJson input = token_logprobs_json(*item.prompt, options_.texts);
    if (options_.logprob_start == 0) {
      // The first token follows nothing.
      const SampledToken first{.id = prompt.front()};
      OrderedJson entry = token_logprobs_json({&first, 1}, options_.texts)[0];
      entry[0] = nullptr;
      input.insert(input.begin(), std::move(entry));
    }
    meta["input_token_logprobs"] = std::move(input);
  }
  if (options_.stream && is_list()) json["index"] = choice;
  return dump_json(json);
}

void GenerateWriter::send(int choice) { send_event(*exchange_, body(choice)); }

void GenerateWriter::complete() {
  if (options_.stream) return finish_events(*exchange_);
  std::string text;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    text += (i == 0 ? "" : ",") + body(static_cast<int>(i));
  }
  exchange_->respond({.body = is_list() ? "[" + text + "]" : text});
}

void GenerateWriter::fail(const Status& status) {
  if (!options_.stream) return exchange_->respond(error_response(status));
  send_event(*exchange_, error_body(status));
  finish_events(*exchange_);
}

}  // namespace tandem
