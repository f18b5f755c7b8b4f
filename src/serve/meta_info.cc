#include "serve/meta_info.h"

#include "text/utf8.h"

namespace tandem {
namespace {

// Weights are those that the server was started with.
constexpr const char* kWeightVersion = "default";

OrderedJson token_json(float logprob, TokenId id, const Tokenizer* text) {
  OrderedJson json = OrderedJson::array({finite_logprob(logprob), id, nullptr});
  if (text != nullptr) json[2] = repair_utf8(text->token_bytes(id));
  return json;
}

}  // namespace

OrderedJson token_logprobs_json(std::span<const SampledToken> tokens, const Tokenizer* text) {
  OrderedJson json = OrderedJson::array();
  for (const SampledToken& token : tokens) {
    json.push_back(token_json(token.logprob, token.id, text));
  }
  return json;
}

OrderedJson top_logprobs_json(std::span<const SampledToken> tokens, const Tokenizer* text) {
  OrderedJson json = OrderedJson::array();
  for (const SampledToken& token : tokens) {
    OrderedJson best = OrderedJson::array();
    for (const TokenLogprob& other : token.top) {
      best.push_back(token_json(other.logprob, other.id, text));
    }
    json.push_back(std::move(best));
  }
  return json;
}

OrderedJson finish_reason_json(const AnswerResult& result) {
  OrderedJson json;
  if (result.result.reason == FinishReason::kCancelled) {
    json["type"] = "abort";
    json["message"] = "the request was aborted";
  } else if (result.result.reason == FinishReason::kLength) {
    json["type"] = "length";
    json["length"] = result.result.usage.completion_tokens;
  } else {
    json["type"] = "stop";
    if (!result.stop_string.empty()) {
      json["matched"] = result.stop_string;
    } else if (result.stop_id) {
      json["matched"] = *result.stop_id;
    }
  }
  return json;
}

OrderedJson meta_info_json(const AnswerRecord& record) {
  OrderedJson json;
  json["id"] = record.id;
  json["finish_reason"] =
      record.result == nullptr ? OrderedJson() : finish_reason_json(*record.result);
  json["prompt_tokens"] = record.prompt_tokens;
  json["completion_tokens"] = record.completion_tokens;
  json["cached_tokens"] = record.cached_tokens;
  json["weight_version"] = kWeightVersion;
  if (record.result != nullptr) {
    const GenerateUsage& usage = record.result->result.usage;
    json["e2e_latency"] = (usage.queue_ms + usage.prefill_ms + usage.decode_ms) / 1000;
  }
  return json;
}

}  // namespace tandem
