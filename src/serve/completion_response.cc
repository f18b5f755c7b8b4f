#include "serve/completion_response.h"

#include <algorithm>

#include "serve/json_dump.h"
#include "serve/openai_usage.h"
#include "text/utf8.h"

namespace tandem {
namespace {

OrderedJson best_json(const SampledToken& token, const Tokenizer& tokenizer) {
  OrderedJson best = OrderedJson::object();
  for (const TokenLogprob& other : token.top) {
    best[repair_utf8(tokenizer.token_bytes(other.id))] = finite_logprob(other.logprob);
  }
  return best;
}

// The lists that belong together, as OpenAI's old route has them.
OrderedJson logprobs_json(const CompletionPiece& piece, const Tokenizer& tokenizer) {
  OrderedJson tokens = OrderedJson::array();
  OrderedJson logprobs = OrderedJson::array();
  OrderedJson best = OrderedJson::array();
  OrderedJson offsets = OrderedJson::array();
  std::int64_t offset = piece.text_offset;
  for (std::size_t i = 0; i < piece.tokens.size(); ++i) {
    const SampledToken& token = piece.tokens[i];
    const std::string_view bytes = tokenizer.token_bytes(token.id);
    const bool unknown = piece.begins_with_prompt && i == 0;
    tokens.push_back(repair_utf8(bytes));
    logprobs.push_back(unknown ? OrderedJson() : OrderedJson(finite_logprob(token.logprob)));
    best.push_back(unknown ? OrderedJson() : best_json(token, tokenizer));
    offsets.push_back(offset);
    offset += count_characters(bytes);
  }
  OrderedJson json;
  json["tokens"] = std::move(tokens);
  json["token_logprobs"] = std::move(logprobs);
  json["top_logprobs"] = std::move(best);
  json["text_offset"] = std::move(offsets);
  return json;
}

OrderedJson piece_json(const CompletionPiece& piece, const CompletionExtras& extras) {
  OrderedJson json;
  json["index"] = piece.index;
  json["text"] = piece.text;
  json["logprobs"] =
      extras.logprobs == nullptr ? OrderedJson() : logprobs_json(piece, *extras.logprobs);
  json["finish_reason"] = piece.end ? OrderedJson(piece.end->finish_reason) : OrderedJson();
  if (piece.end) {
    OrderedJson& matched = json["matched_stop"];
    if (piece.end->stop_id) matched = *piece.end->stop_id;
    if (!piece.end->stop_string.empty()) matched = piece.end->stop_string;
  }
  if (extras.token_ids) {
    json["token_ids"] = OrderedJson::array();
    for (const SampledToken& token : piece.tokens) json["token_ids"].push_back(token.id);
    if (piece.prompt != nullptr) json["prompt_token_ids"] = *piece.prompt;
  }
  return json;
}

}  // namespace

std::int64_t count_characters(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;  // no continuation byte
  });
}

std::string completion_text_body(const ChatHead& head, const std::vector<CompletionPiece>& pieces,
                                 const CompletionExtras& extras, const AnswerUsage* usage) {
  OrderedJson body;
  body["id"] = head.id;
  body["object"] = "text_completion";
  body["created"] = head.created;
  body["model"] = head.model;
  body["choices"] = OrderedJson::array();
  for (const CompletionPiece& piece : pieces) body["choices"].push_back(piece_json(piece, extras));
  if (usage != nullptr) add_usage(body, *usage);
  return dump_json(body);
}

}  // namespace tandem
