// Decides what every step does: which requests advance, in which memory, and which give way.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "memory/arena.h"
#include "memory/prefix_cache.h"
#include "schedule/cost_table.h"
#include "schedule/output_estimate.h"
#include "schedule/request.h"
#include "schedule/request_queue.h"
#include "schedule/step_plan.h"

namespace tandem {

struct PlannerOptions {
  std::int64_t max_running = 16;     // requests that own memory at a time
  std::int64_t prefill_chunk = 512;  // prompt tokens in one step, over all requests; >= the grid
  // While somebody decodes: steps are to take no longer, though they take min_prefill_chunk prompt
  // tokens in any case.
  double step_budget_ms = 50;
  std::int64_t min_prefill_chunk = 64;
  // A running request's state is kept every so many tokens, in place of the one before; a multiple
  // of the grid.
  std::int64_t track_interval = 64;
  std::int64_t min_spacing_tokens = 32'768;  // of checkpoints in a long prompt
  int max_retractions = 3;                   // of one request, unless nobody else is left
  // Of the expected length of answers that memory is set aside for: more admits fewer requests and
  // interrupts fewer.
  double estimate_deviations = 1;
  QueuePolicy policy = QueuePolicy::kAuto;
  PatienceLimits patience = {};
  bool low_priority_first = false;
  // A waiting request takes the place of a running one whose priority is lower by more than this.
  std::optional<int> preempt_above = {};
  bool use_cache = true;  // false: every prompt is computed from its start
};

// Since the planner was made.
struct PlannerCounters {
  std::int64_t steps = 0;
  std::int64_t prefill_tokens = 0;  // computed, replayed and reprocessed ones included
  std::int64_t decode_tokens = 0;
  std::int64_t wasted_rows = 0;  // computed for a request that had ended
  std::int64_t restores = 0;
  std::int64_t snapshots = 0;
  std::int64_t snapshots_skipped = 0;  // for want of room
  std::int64_t retractions = 0;
  std::int64_t reprocessed_tokens = 0;
  std::int64_t waits_for_prefix = 0;  // a request waited in favour of one that computes its prefix
};

// One of the planner's requests as the outside may see it.
struct RequestView {
  CacheUse cache;
  std::int64_t prompt_tokens = 0;
  std::int64_t answer_tokens = 0;
  std::int64_t reprocessed_tokens = 0;
  int retractions = 0;
  TimePoint arrival = {};
  TimePoint admitted = {};  // zero: not yet
};

enum class EndKind : std::uint8_t {
  kComplete,  // its answer says how long answers are
  kCutShort,
  kFailed,  // what it computed is nothing for others to start from
};

// What became of a request, once.
struct EndedRequest {
  RequestId id;
  FinishReason reason = FinishReason::kStop;
  Status status = {};  // of kError
  RequestView view = {};
};

// A pure library: decisions depend on the calls, the clock and the options only. Steps are planned
// ahead of their results: plan() advances every request as if all goes on, and commit() of an older
// step says what did.
//
// Memory is given back when the decision is made, not when the steps in flight have run: steps run
// in order, so whoever gets it next writes after them.
//
// Not thread-safe: owned by the planner thread. Arena, cache and clock must outlive it.
class Planner {
 public:
  Planner(Arena& arena, PrefixCache& cache, const Clock& clock, PlannerOptions options,
          CostTable cost);
  ~Planner();
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // kInvalidArgument with the arithmetic if the request cannot fit into an empty arena.
  Result<void> check(std::int64_t prompt_tokens) const;
  // Tokens that one request alone can have, prompt and answer; never more than fits.
  std::int64_t capacity_tokens() const;

  // The request must have passed check().
  void add(RequestSpec spec);
  // Ends a request at once, in any state. Its valid snapshots go to the cache unless it failed.
  RequestView end(RequestId id, EndKind kind);

  bool contains(RequestId id) const { return requests_.contains(id); }
  RequestView view(RequestId id) const;  // CHECKs that the planner contains it
  std::size_t size() const { return requests_.size(); }
  std::size_t queued() const { return queue_.size(); }
  std::size_t running() const { return active_.size(); }
  std::size_t steps_in_flight() const { return in_flight_.size(); }

  // Plans the next step; it is empty where nothing can be done before another result. `ended`
  // receives those that cannot go on.
  void plan(StepPlan& plan, std::vector<EndedRequest>& ended);

  // The oldest step not yet committed has run, in so much time (0: not measured).
  void commit_step(double elapsed_ms);
  // The next sample of the step just committed, in the order of its rows. False if the request had
  // ended: the token is to be dropped.
  bool commit_token(RequestId id, TokenId token);
  // Whether the answer is as long as it may get.
  bool is_full(RequestId id) const;

  const PlannerCounters& counters() const { return counters_; }
  const PlannerOptions& options() const { return options_; }
  // kInternal with the first contradiction found between requests, arena and cache.
  Result<void> integrity_check() const;

 private:
  struct Scheduled {
    Request* request;
    std::int64_t tokens;
    std::vector<std::pair<std::int64_t, StateId>> snapshots = {};  // depth and slot
  };
  struct InFlight {
    struct Row {
      RequestId request;
      TenantId tenant;
      int admission;
      std::int64_t tokens;
      std::int64_t end;  // tokens computed after it
    };
    std::vector<Row> rows;
    StepWork work;
  };

  Request* find(RequestId id);
  const Request* find(RequestId id) const;

  void schedule_decodes(std::vector<EndedRequest>& ended);
  bool decodes(const Request& request) const;
  void schedule_prefills();
  std::int64_t prefill_budget() const;
  std::int64_t chunk_tokens(const Request& request, std::int64_t limit) const;
  bool schedule_chunk(Request& request, std::int64_t limit);
  void take_snapshots();
  void take_snapshot(Scheduled& scheduled, const PlannedCheckpoint& wanted);

  void drop_expired(std::vector<EndedRequest>& ended);
  QueuedRequest queue_entry(const Request& request) const;
  PrefillWork prefill_work(const Request& request, const PrefixMatch& match) const;
  void admit_from_queue(std::int64_t& budget);
  EntryCounts admission_need(const Request& request, const PrefixMatch& match) const;
  bool preempt_for(const Request& request, const PrefixMatch& match);
  bool admit(Request& request, std::int64_t budget);
  bool admit(Request& request, const PrefixMatch& found, std::int64_t budget);
  std::int64_t expected_tokens(const Request& request) const;
  std::int64_t promised_pages() const;
  bool waits_for_prefix(const Request& request, const PrefixMatch& match);
  PrefixMatch match(const Request& request) const;

  bool make_room_for_decodes(std::vector<EndedRequest>& ended);
  bool is_stuck() const;
  bool give_way(std::vector<EndedRequest>& ended);
  Request* choose_victim();
  void retract(Request& request);

  void write(StepPlan& plan);
  void write_row(const Scheduled& scheduled, StepPlan& plan);
  void hand_over();
  void remove_from_lists(const Request& request);

  Arena& arena_;
  PrefixCache& cache_;
  const Clock& clock_;
  const PlannerOptions options_;
  CostTable cost_;
  OutputEstimate estimate_;

  std::unordered_map<RequestId, std::unique_ptr<Request>> requests_;
  RequestQueue queue_;
  std::set<std::pair<TimePoint, RequestId>> deadlines_;  // of requests that were never admitted
  std::vector<Request*> active_;                         // own memory, by admission
  std::deque<InFlight> in_flight_;
  std::uint64_t last_sequence_ = 0;
  std::uint64_t turn_ = 0;
  std::uint64_t measured_steps_ = 0;

  // Of the step being planned.
  std::vector<Scheduled> scheduled_;
  std::vector<Request*> admitted_;

  PlannerCounters counters_;
};

}  // namespace tandem
