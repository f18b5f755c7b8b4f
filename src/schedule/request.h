// A request as the scheduler sees it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "memory/namespace_key.h"
#include "memory/prefix_placement.h"
#include "memory/request_memory.h"
#include "schedule/waiting_line.h"

namespace tandem {

enum class FinishReason {
  kStop,       // a stop id was sampled, or the caller had enough
  kLength,     // max_tokens, or the context or the memory is full
  kCancelled,  // cancelled, or the engine shut down
  kError,      // a status says what
};

// What a caller asks of the scheduler.
struct RequestSpec {
  RequestId id;
  std::vector<TokenId> prompt;  // >= 1 token
  std::int64_t max_tokens = 1;  // of the answer
  // How much of the prompt was there before what is asked for now; 0: unknown. A good place for a
  // checkpoint.
  std::int64_t history_tokens = 0;
  // Tokens from this position on are computed though they are cached; negative: none of them.
  std::int64_t compute_from = -1;
  NamespaceKey cache_key = CacheNamespace{}.key();
  TenantId tenant = {};
  double tenant_weight = 1;                // its share of the time, above 0
  int priority = 0;                        // higher first
  std::optional<TimePoint> deadline = {};  // to be admitted by, for the first time
};

// Why the prompt was not found in the cache to its end.
enum class CacheMiss : std::uint8_t {
  kNone,     // it was
  kNew,      // nothing longer was ever cached, or it was evicted together with its rows
  kDiffers,  // cached text goes on with another token, at CacheUse::text_tokens
  kEvicted,  // rows are there, the state was evicted
  kBranch,   // rows are there, no state was taken at this point yet
};

// The word for users.
constexpr std::string_view to_string(CacheMiss miss) {
  switch (miss) {
    case CacheMiss::kNone:
      return "none";
    case CacheMiss::kNew:
      return "new";
    case CacheMiss::kDiffers:
      return "differs";
    case CacheMiss::kEvicted:
      return "evicted";
    case CacheMiss::kBranch:
      return "branch";
  }
  return "";
}

// How the first admission of a request met the prefix cache.
struct CacheUse {
  std::int64_t cached_tokens = 0;    // not computed again
  std::int64_t replayed_tokens = 0;  // computed again although their rows were cached
  std::int64_t text_tokens = 0;      // of the prompt agreed with cached text
  CacheMiss miss = CacheMiss::kNew;
};

CacheUse cache_use(const PrefixMatch& match);

enum class RequestState : std::uint8_t {
  kQueued,      // waits for memory or for its turn, for the first time or retracted
  kPrefilling,  // owns memory; tokens are left that need no sample to be known
  kRunning,     // one token a step
};

// Owned by the planner. Positions count tokens from the start of the prompt.
struct Request {
  explicit Request(RequestSpec asked, TimePoint now)
      : id(asked.id),
        tokens(std::move(asked.prompt)),
        prompt_tokens(static_cast<std::int64_t>(tokens.size())),
        max_tokens(asked.max_tokens),
        history_tokens(asked.history_tokens),
        compute_from(asked.compute_from),
        cache_key(std::move(asked.cache_key)),
        tenant(asked.tenant),
        tenant_weight(asked.tenant_weight),
        priority(asked.priority),
        deadline(asked.deadline),
        arrival(now) {}

  RequestId id;
  std::vector<TokenId> tokens;  // prompt, then what of the answer is known
  std::int64_t prompt_tokens;
  std::int64_t max_tokens;
  std::int64_t history_tokens;
  std::int64_t compute_from;
  NamespaceKey cache_key;
  TenantId tenant;
  double tenant_weight;
  int priority;
  std::optional<TimePoint> deadline;
  TimePoint arrival;

  RequestState state = RequestState::kQueued;
  std::optional<RequestMemory> memory;         // while it is not queued
  std::vector<PlannedCheckpoint> checkpoints;  // still to be taken, ascending by depth
  std::int64_t prefill_end = 0;  // tokens known at admission: what the prefill has to compute
  std::int64_t planned = 0;      // tokens that the plans made so far compute
  std::int64_t committed = 0;    // tokens that the steps reported so far have computed
  std::int64_t samples_planned = 0;
  int steps_in_flight = 0;  // planned and not reported
  int admissions = 0;       // steps of an earlier one say nothing of `committed`
  int retractions = 0;

  CacheUse cache = {};
  std::int64_t reprocessed_tokens = 0;  // computed again after a retraction
  TimePoint admitted = {};              // for the first time

  // How many tokens may come from the cache. One must be computed for logits.
  std::int64_t reusable() const {
    return compute_from < 0 ? known() - 1 : std::min(known() - 1, compute_from);
  }
  std::int64_t known() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t answer_tokens() const { return known() - prompt_tokens; }
};

}  // namespace tandem
