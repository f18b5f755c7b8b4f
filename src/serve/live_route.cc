#include "serve/live_route.h"

#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

// By FinishReason.
constexpr const char* kFinishNames[] = {"stop", "length", "cancelled", "error"};

std::int64_t sum(const auto& values) {
  return std::accumulate(std::begin(values), std::end(values), std::int64_t{0});
}

std::int64_t states_of(const EngineStatus& engine, StateOwner owner) {
  return engine.arena.states[static_cast<std::size_t>(owner)];
}

// Entries by owner, from either end of the arena towards the gap.
Json arena_json(const EngineStatus& engine) {
  const ArenaUsage& arena = engine.arena;
  Json json;
  json["bytes"] = engine.geometry.buffer_bytes();
  json["sink_bytes"] = engine.geometry.sink_bytes();
  json["gap_bytes"] = arena.gap_bytes;
  json["states"] = {{"entry_bytes", engine.geometry.state_bytes},
                    {"requests", states_of(engine, StateOwner::kWork)},
                    {"snapshots", states_of(engine, StateOwner::kPing)},
                    {"cache", states_of(engine, StateOwner::kTree)},
                    {"readers", states_of(engine, StateOwner::kReader)},
                    {"holes", arena.holes.states}};
  // A page has no owner's tag. What the tree does not own belongs to requests, or to readers of
  // either until they are done.
  json["pages"] = {{"entry_bytes", engine.geometry.page_bytes},
                   {"requests", arena.taken.pages - engine.cache.pages},
                   {"cache", engine.cache.pages},
                   {"holes", arena.holes.pages}};
  json["moves"] = engine.arena_counters.moves;
  return json;
}

Json cache_json(const EngineStatus& engine, const PromptTotals& totals) {
  const PrefixCounters& counters = engine.cache_counters;
  const auto replayed = [&](ReplayCause cause) {
    return counters.replay_tokens[static_cast<std::size_t>(cause)];
  };
  Json json;
  json["grid_tokens"] = engine.grid_tokens;
  json["states"] = engine.cache.states;
  json["locked_states"] = engine.cache.locked_states;
  json["evicted_states"] = sum(counters.evicted_states);
  json["evicted_pages"] = sum(counters.evicted_pages);
  json["prompts"] = totals.prompts;
  json["prompt_tokens"] = totals.prompt_tokens;
  json["cached_tokens"] = totals.cached_tokens;
  for (std::size_t i = 0; i < kCacheMisses; ++i) {
    json["misses"][std::string(to_string(static_cast<CacheMiss>(i)))] = {
        {"prompts", totals.misses[i]}, {"tokens", totals.missed_tokens[i]}};
  }
  json["replayed_tokens"] = {{"evicted", replayed(ReplayCause::kEvicted)},
                             {"branch", replayed(ReplayCause::kBranch)},
                             {"grid", replayed(ReplayCause::kGrid)}};
  return json;
}

Json steps_json(const PlannerCounters& counters) {
  return {{"steps", counters.steps},
          {"prefill_tokens", counters.prefill_tokens},
          {"decode_tokens", counters.decode_tokens},
          {"retractions", counters.retractions},
          {"reprocessed_tokens", counters.reprocessed_tokens},
          {"waits_for_prefix", counters.waits_for_prefix}};
}

Json record_json(const RequestRecord& record) {
  Json json;
  json["number"] = record.number;
  json["prompt_tokens"] = record.prompt_tokens;
  json["answer_tokens"] = record.answer_tokens;
  json["submitted_ms"] = record.submitted_ms;
  json["first_token_ms"] = record.first_token_ms ? Json(*record.first_token_ms) : Json(nullptr);
  json["finish"] = nullptr;
  if (!record.result) return json;
  const GenerateUsage& usage = record.result->usage;
  json["finish"] = kFinishNames[static_cast<std::size_t>(record.result->reason)];
  json["queue_ms"] = usage.queue_ms;
  json["prefill_ms"] = usage.prefill_ms;
  json["decode_ms"] = usage.decode_ms;
  json["cached_tokens"] = usage.cache.cached_tokens;
  json["reprocessed_tokens"] = usage.reprocessed_tokens;
  json["miss"] = to_string(usage.cache.miss);
  return json;
}

}  // namespace

std::string live_body(const EngineStatus& engine, const RequestLog& log,
                      const std::string& served_name) {
  Json json;
  json["time_ms"] = log.now_ms();
  json["model"] = served_name;
  json["running"] = engine.running;
  json["queued"] = engine.queued;
  json["counters"] = steps_json(engine.planner);
  json["arena"] = arena_json(engine);
  json["cache"] = cache_json(engine, log.totals());
  json["requests"] = Json::array();
  for (const RequestRecord& record : log.recent()) json["requests"].push_back(record_json(record));
  return json.dump();
}

HttpHandler live_route(const ServedModel& model, std::string served_name, const RequestLog& log) {
  return [&model, &log, served_name = std::move(served_name)](
             HttpRequest, const std::shared_ptr<HttpExchange>& exchange) {
    exchange->respond({.headers = {{"Cache-Control", "no-store"}},
                       .body = live_body(model.engine->status(), log, served_name)});
  };
}

}  // namespace tandem
