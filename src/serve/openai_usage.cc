#include "serve/openai_usage.h"

namespace tandem {
namespace {

double per_second(std::int64_t tokens, double ms) {
  return ms > 0 ? static_cast<double>(tokens) * 1000 / ms : 0;
}

OrderedJson prompt_details(const CacheUse& cache) {
  OrderedJson json;
  json["cached_tokens"] = cache.cached_tokens;
  json["replayed_tokens"] = cache.replayed_tokens;
  json["cache_miss"] = to_string(cache.miss);
  if (cache.miss == CacheMiss::kDiffers) json["differs_at"] = cache.text_tokens;
  return json;
}

}  // namespace

OrderedJson token_usage_json(const AnswerUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

void add_usage(OrderedJson& body, const AnswerUsage& usage) {
  const std::int64_t computed_tokens = usage.prompt_tokens - usage.cache.cached_tokens;
  body["usage"] = token_usage_json(usage);
  body["usage"]["prompt_tokens_details"] = prompt_details(usage.cache);
  body["usage"]["completion_tokens_details"] = {{"reasoning_tokens", usage.reasoning_tokens}};
  body["timings"] = {{"queue_ms", usage.queue_ms},
                     {"prefill_ms", usage.prefill_ms},
                     {"decode_ms", usage.decode_ms},
                     {"prefill_tokens_per_s", per_second(computed_tokens, usage.prefill_ms)},
                     {"decode_tokens_per_s", per_second(usage.completion_tokens, usage.decode_ms)}};
}

}  // namespace tandem
