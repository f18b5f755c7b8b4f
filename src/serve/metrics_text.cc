#include "serve/metrics_text.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace tandem {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// Indexed by the enumerations whose values they name.
constexpr const char* kFinishNames[] = {"stop", "length", "cancelled", "error"};
constexpr const char* kReasonNames[] = {"branch", "turn", "guard", "chunk", "answer"};
constexpr const char* kReplayNames[] = {"none", "evicted", "branch", "grid"};
constexpr const char* kEvictionNames[] = {"pressure", "path_cap", "useless"};
constexpr const char* kOwnerNames[] = {"nobody", "work", "snapshot", "tree", "reader"};
constexpr const char* kPathStatesNames[] = {"1",     "2-3",   "4-7",    "8-15",
                                            "16-31", "32-63", "64-127", "128+"};
static_assert(std::size(kFinishNames) == kFinishReasons);
static_assert(std::size(kReasonNames) == kCheckpointReasons);
static_assert(std::size(kReplayNames) == kReplayCauses);
static_assert(std::size(kEvictionNames) == kEvictionCauses);
static_assert(std::size(kOwnerNames) == kStateOwners);
static_assert(std::size(kPathStatesNames) ==
              std::tuple_size_v<decltype(PrefixCounters::path_states)>);

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

// Collects families; the order of the calls is that of the text.
class Families {
 public:
  void counter(const char* name, const char* help, std::int64_t value, Labels labels = {}) {
    family(name, help, MetricType::Counter);
    add(value, std::move(labels));
  }
  void gauge(const char* name, const char* help, double value, Labels labels = {}) {
    family(name, help, MetricType::Gauge);
    add(value, std::move(labels));
  }
  // One series for each name from `first` on.
  void counters(const char* name, const char* help, const char* label,
                std::span<const char* const> names, std::span<const std::int64_t> values,
                std::size_t first = 0) {
    family(name, help, MetricType::Counter);
    add_each(label, names, values, first);
  }
  void gauges(const char* name, const char* help, const char* label,
              std::span<const char* const> names, std::span<const std::int64_t> values,
              std::size_t first = 0) {
    family(name, help, MetricType::Gauge);
    add_each(label, names, values, first);
  }
  void family(const char* name, const char* help, MetricType type) {
    families_.push_back({.name = name, .help = help, .type = type, .metric = {}});
  }
  // Of the last family.
  template <typename Number>
  void add(Number value, Labels labels) {
    ClientMetric metric;
    metric.label = std::move(labels);
    const bool counts = families_.back().type == MetricType::Counter;
    (counts ? metric.counter.value : metric.gauge.value) = static_cast<double>(value);
    families_.back().metric.push_back(std::move(metric));
  }

  std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  void add_each(const char* label, std::span<const char* const> names,
                std::span<const std::int64_t> values, std::size_t first) {
    for (std::size_t i = first; i < names.size(); ++i) add(values[i], {{label, names[i]}});
  }

  std::vector<MetricFamily> families_;
};

void add_memory(Families& out, const EngineStatus& engine) {
  const ArenaUsage& arena = engine.arena;
  out.family("tandem_mem_arena_bytes",
             "Bytes of the arena by use; pinned bytes are part of state and kv", MetricType::Gauge);
  for (const auto& [kind, bytes] : {std::pair{"state", arena.state_bytes},
                                    {"kv", arena.page_bytes},
                                    {"hole", arena.hole_bytes},
                                    {"gap", arena.gap_bytes},
                                    {"pinned", arena.pinned_bytes}}) {
    out.add(bytes, {{"kind", kind}});
  }
  out.gauge("tandem_mem_budget_bytes", "Size of the arena",
            static_cast<double>(engine.geometry.buffer_bytes()));
  out.gauge("tandem_mem_state_bytes", "Size of one recurrent state",
            static_cast<double>(engine.geometry.state_bytes));
  out.gauge("tandem_mem_page_bytes", "Size of one page of latent rows",
            static_cast<double>(engine.geometry.page_bytes));
  out.gauge("tandem_mem_joint_headroom_states", "States that fit into free bytes, nothing evicted",
            static_cast<double>((arena.gap_bytes + arena.hole_bytes) /
                                std::max<std::int64_t>(1, engine.geometry.state_bytes)));
  out.counter("tandem_mem_moves_total", "Entries moved to close holes",
              engine.arena_counters.moves);
  out.counter("tandem_mem_moved_bytes_total", "Bytes of these", engine.arena_counters.moved_bytes);
  out.gauges("tandem_state_slots", "States by owner", "owner", kOwnerNames, arena.states, 1);
}

void add_cache(Families& out, const EngineStatus& engine) {
  const PrefixCounters& counts = engine.cache_counters;
  const PrefixUsage& usage = engine.cache;
  out.counter("tandem_cache_lookups_total", "Prompts looked up and admitted", counts.lookups);
  out.counter("tandem_cache_hit_tokens_total", "Prompt tokens not computed again",
              counts.hit_tokens, {{"tier", "device"}});
  out.counter("tandem_cache_full_kv_hit_tokens_total", "Prompt tokens whose rows were cached",
              counts.row_hit_tokens);
  out.counter("tandem_cache_lost_to_state_tokens_total",
              "Of these, tokens computed again for want of a state to start from",
              counts.lost_to_state_tokens);
  out.counters("tandem_cache_replay_tokens_total", "The same, by why there was no state", "reason",
               kReplayNames, counts.replay_tokens, 1);
  out.counters("tandem_ckpt_planted_total", "States that entered the cache", "reason", kReasonNames,
               counts.planted);
  out.counters("tandem_ckpt_used_total", "States that a prompt started from", "reason",
               kReasonNames, counts.used);
  out.counter("tandem_ckpt_evicted_unused_total", "States evicted that no prompt started from",
              counts.evicted_unused);
  out.counters("tandem_path_states_total",
               "States that entered, by how many then stood on their path", "states",
               kPathStatesNames, counts.path_states);
  out.family("tandem_evict_total", "Entries evicted from the cache", MetricType::Counter);
  for (std::size_t i = 0; i < kEvictionCauses; ++i) {
    out.add(counts.evicted_states[i], {{"kind", "state"}, {"why", kEvictionNames[i]}});
    out.add(counts.evicted_pages[i], {{"kind", "kv"}, {"why", kEvictionNames[i]}});
  }
  out.family("tandem_cache_entries", "Entries that the cache owns", MetricType::Gauge);
  out.add(usage.states, {{"kind", "state"}});
  out.add(usage.pages, {{"kind", "kv"}});
  out.family("tandem_cache_locked_entries", "Of these, entries that requests hold",
             MetricType::Gauge);
  out.add(usage.locked_states, {{"kind", "state"}});
  out.add(usage.locked_pages, {{"kind", "kv"}});
  out.gauge("tandem_tombstones", "Cached prefixes that lost their state",
            static_cast<double>(usage.tombstones));
  out.gauge("tandem_stranded_kv_bytes", "Bytes of their rows",
            static_cast<double>(usage.stranded_pages * engine.geometry.page_bytes));
  out.gauge("tandem_cache_grid_tokens", "Cached prefixes end at multiples of this",
            static_cast<double>(engine.grid_tokens));
}

void add_requests(Families& out, const MetricsInput& input) {
  const PlannerCounters& counts = input.engine.planner;
  out.gauge("tandem_requests_running", "Requests that own memory",
            static_cast<double>(input.engine.running));
  out.gauge("tandem_requests_queued", "Requests that wait",
            static_cast<double>(input.engine.queued));
  out.counters("tandem_requests_total", "Requests that ended; each choice is one", "finish",
               kFinishNames, input.requests.ended);
  out.counter("tandem_unknown_fields_total", "Fields of requests that nobody knows",
              input.requests.unknown_fields);
  out.counter("tandem_steps_total", "Steps of the model", counts.steps);
  out.counter("tandem_prefill_tokens_total",
              "Tokens computed in chunks: of prompts, replayed and reprocessed ones included",
              counts.prefill_tokens);
  out.counter("tandem_decode_tokens_total", "Tokens computed one at a time", counts.decode_tokens);
  out.counter("tandem_wasted_rows_total", "Rows computed for a request that had ended",
              counts.wasted_rows);
  out.counter("tandem_cow_restores_total", "Cached states copied for a request to start from",
              counts.restores);
  out.counter("tandem_snapshots_total", "States kept of running requests", counts.snapshots);
  out.counter("tandem_snapshot_skipped_total", "States not kept", counts.snapshots_skipped,
              {{"reason", "memory"}});
  out.counter("tandem_retractions_total", "Requests interrupted for want of memory",
              counts.retractions);
  out.counter("tandem_reprocessed_tokens_total", "Tokens computed again because of that",
              counts.reprocessed_tokens);
  out.counter("tandem_waits_for_prefix_total",
              "Requests that waited for another to compute their prefix", counts.waits_for_prefix);
  out.gauge("tandem_prefill_chunk_tokens", "Most prompt tokens of one step",
            static_cast<double>(input.prefill_chunk_tokens));
  out.gauge("tandem_context_tokens", "Longest prompt and answer together",
            static_cast<double>(input.context_tokens));
}

// Bytes that eviction could not give back.
double held_bytes(const EngineStatus& engine) {
  const std::int64_t evictable =
      (engine.cache.states - engine.cache.locked_states) * engine.geometry.state_bytes +
      (engine.cache.pages - engine.cache.locked_pages) * engine.geometry.page_bytes;
  return static_cast<double>(engine.arena.state_bytes + engine.arena.page_bytes - evictable);
}

double arena_share(const EngineStatus& engine) {
  return share(held_bytes(engine), static_cast<double>(engine.geometry.usable_bytes()));
}

void add_sglang(Families& out, const MetricsInput& input) {
  const Labels model = {{"model_name", input.served_name}};
  const EngineStatus& engine = input.engine;
  const RequestCounts& requests = input.requests;
  out.gauge("sglang:num_running_reqs", "As tandem_requests_running",
            static_cast<double>(engine.running), model);
  out.gauge("sglang:num_queue_reqs", "As tandem_requests_queued",
            static_cast<double>(engine.queued), model);
  out.gauge("sglang:token_usage", "Share of the arena that eviction could not give back",
            arena_share(engine), model);
  out.gauge("sglang:cache_hit_rate", "Share of prompt tokens that were cached, since the start",
            share(static_cast<double>(requests.cached_tokens),
                  static_cast<double>(requests.prompt_tokens)),
            model);
  out.gauge("sglang:num_retracted_reqs", "As tandem_retractions_total",
            static_cast<double>(engine.planner.retractions), model);
  out.counter("sglang:prompt_tokens_total", "Prompt tokens of requests that ended",
              requests.prompt_tokens, model);
  out.counter("sglang:generation_tokens_total", "Answer tokens of requests that ended",
              requests.completion_tokens, model);
  out.counter("sglang:cached_tokens_total", "Prompt tokens of these that were cached",
              requests.cached_tokens, model);
  out.counter("sglang:num_requests_total", "Requests that ended; each choice is one",
              std::accumulate(requests.ended.begin(), requests.ended.end(), std::int64_t{0}),
              model);
  out.counter("sglang:num_aborted_requests_total", "Of these, aborted",
              requests.ended[static_cast<std::size_t>(FinishReason::kCancelled)], model);
}

// For dashboards made for vLLM.
void add_vllm(Families& out, const MetricsInput& input) {
  const Labels model = {{"model_name", input.served_name}};
  const EngineStatus& engine = input.engine;
  const RequestCounts& requests = input.requests;
  out.gauge("vllm:num_requests_running", "As tandem_requests_running",
            static_cast<double>(engine.running), model);
  out.gauge("vllm:num_requests_waiting", "As tandem_requests_queued",
            static_cast<double>(engine.queued), model);
  out.gauge("vllm:kv_cache_usage_perc", "As sglang:token_usage", arena_share(engine), model);
  out.counter("vllm:prompt_tokens_total", "As sglang:prompt_tokens_total", requests.prompt_tokens,
              model);
  out.counter("vllm:generation_tokens_total", "As sglang:generation_tokens_total",
              requests.completion_tokens, model);
  out.counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache",
              requests.prompt_tokens, model);
  out.counter("vllm:prefix_cache_hits_total", "Of these, cached", requests.cached_tokens, model);
  out.counter("vllm:num_preemptions_total", "As tandem_retractions_total",
              engine.planner.retractions, model);
  out.family("vllm:request_success_total", "Requests that ended without an error",
             MetricType::Counter);
  for (const auto& [reason, name] :
       {std::pair{FinishReason::kStop, "stop"}, std::pair{FinishReason::kLength, "length"},
        std::pair{FinishReason::kCancelled, "abort"}}) {
    out.add(requests.ended[static_cast<std::size_t>(reason)],
            {{"model_name", input.served_name}, {"finished_reason", name}});
  }
}

}  // namespace

std::optional<std::string> metrics_text(const MetricsInput& input) {
  Families families;
  add_requests(families, input);
  add_cache(families, input.engine);
  add_memory(families, input.engine);
  add_sglang(families, input);
  add_vllm(families, input);
  return families.text();
}

}  // namespace tandem
