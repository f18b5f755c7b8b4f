#include "run_report.h"

#include <fmt/core.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace tandem {
namespace {

// The first token comes out of the prefill, so n tokens take n-1 decode steps.
double decode_rate(const GenerateUsage& usage) {
  return usage.decode_ms > 0
             ? static_cast<double>(usage.completion_tokens - 1) * 1000 / usage.decode_ms
             : 0;
}
// Of what was computed: cached tokens take no time.
double prefill_rate(const GenerateUsage& usage) {
  const auto computed = static_cast<double>(usage.prompt_tokens - usage.cache.cached_tokens);
  return usage.prefill_ms > 0 ? computed * 1000 / usage.prefill_ms : 0;
}

}  // namespace

void print_stats(const GenerateUsage& usage) {
  fmt::print(stderr,
             "[prompt {} tokens, {} of them cached, in {:.0f} ms ({:.0f}/s), answer {} tokens in "
             "{:.0f} ms "
             "({:.0f}/s)]\n",
             usage.prompt_tokens, usage.cache.cached_tokens, usage.prefill_ms, prefill_rate(usage),
             usage.completion_tokens, usage.decode_ms, decode_rate(usage));
}

void add_usage(nlohmann::ordered_json& line, const GenerateUsage& usage) {
  line["usage"] = {{"prompt_tokens", usage.prompt_tokens},
                   {"completion_tokens", usage.completion_tokens},
                   {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
  auto& details = line["usage"]["prompt_tokens_details"];
  details["cached_tokens"] = usage.cache.cached_tokens;
  details["replayed_tokens"] = usage.cache.replayed_tokens;
  details["cache_miss"] = to_string(usage.cache.miss);
  if (usage.cache.miss == CacheMiss::kDiffers) details["differs_at"] = usage.cache.text_tokens;
  line["timings"] = {{"queue_ms", usage.queue_ms},
                     {"prefill_ms", usage.prefill_ms},
                     {"decode_ms", usage.decode_ms},
                     {"prefill_tokens_per_s", prefill_rate(usage)},
                     {"decode_tokens_per_s", decode_rate(usage)}};
}

}  // namespace tandem
