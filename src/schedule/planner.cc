#include "schedule/planner.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"

namespace tandem {
namespace {

// Far from where sums with a threshold would overflow.
constexpr int kMaxPriority = 1 << 24;

std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }

}  // namespace

CacheUse cache_use(const PrefixMatch& match) {
  CacheUse use{.cached_tokens = match.usable_tokens,
               .replayed_tokens = match.replay_tokens(),
               .text_tokens = match.text_tokens,
               .miss = CacheMiss::kNone};
  if (match.replay == ReplayCause::kEvicted) {
    use.miss = CacheMiss::kEvicted;
  } else if (match.replay == ReplayCause::kBranch) {
    use.miss = CacheMiss::kBranch;
  } else if (match.end == MatchEnd::kTextDiffers) {
    use.miss = CacheMiss::kDiffers;
  } else if (match.end == MatchEnd::kCacheEnds) {
    use.miss = CacheMiss::kNew;
  }
  return use;
}

Planner::Planner(Arena& arena, PrefixCache& cache, const Clock& clock, PlannerOptions options,
                 CostTable cost)
    : arena_(arena),
      cache_(cache),
      clock_(clock),
      options_(options),
      cost_(std::move(cost)),
      estimate_(options.estimate_deviations),
      queue_({.policy = options.policy,
              .max_queued = std::numeric_limits<std::size_t>::max(),
              .patience = options.patience}) {
  const std::int64_t grid = cache_.options().grid_tokens;
  CHECK(options_.prefill_chunk >= grid, "chunks of {} tokens do not reach the grid of {}",
        options_.prefill_chunk, grid);
  CHECK(options_.track_interval > 0 && options_.track_interval % grid == 0,
        "a state every {} tokens is off the grid of {}", options_.track_interval, grid);
  CHECK(options_.max_running > 0, "no request may run");
}

Planner::~Planner() = default;

std::int64_t Planner::capacity_tokens() const {
  const ArenaGeometry& geometry = arena_.geometry();
  const std::int64_t pages = (geometry.usable_bytes() - geometry.state_bytes) / geometry.page_bytes;
  return std::max<std::int64_t>(0, pages) * cache_.options().page_tokens;
}

Result<void> Planner::check(std::int64_t prompt_tokens) const {
  const ArenaGeometry& geometry = arena_.geometry();
  if (prompt_tokens < capacity_tokens()) return {};
  const std::int64_t page_tokens = cache_.options().page_tokens;
  return invalid(
      "the prompt has {} tokens; the memory of {} bytes holds {}, with at least one for the answer "
      "(one state of {} bytes, and {} bytes for every {} tokens)",
      prompt_tokens, geometry.usable_bytes(), capacity_tokens(), geometry.state_bytes,
      geometry.page_bytes, page_tokens);
}

void Planner::add(RequestSpec spec) {
  const RequestId id = spec.id;
  CHECK(!spec.prompt.empty() && spec.max_tokens > 0, "request {} asks for nothing", id.value);
  spec.max_tokens =
      std::min(spec.max_tokens, capacity_tokens() - static_cast<std::int64_t>(spec.prompt.size()));
  CHECK(spec.max_tokens > 0, "request {} was not checked", id.value);
  spec.priority = std::clamp(spec.priority, -kMaxPriority, kMaxPriority);
  if (options_.low_priority_first) spec.priority = -spec.priority;
  const auto [at, is_new] =
      requests_.emplace(id, std::make_unique<Request>(std::move(spec), clock_.now()));
  CHECK(is_new, "request {} was added before", id.value);
  const Request& request = *at->second;
  if (request.deadline) deadlines_.emplace(*request.deadline, id);
  queue_.push(queue_entry(request));
}

Request* Planner::find(RequestId id) {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : found->second.get();
}

const Request* Planner::find(RequestId id) const { return const_cast<Planner*>(this)->find(id); }

RequestView Planner::view(RequestId id) const {
  const Request* request = find(id);
  CHECK(request != nullptr, "request {} has ended", id.value);
  return {.cache = request->cache,
          .prompt_tokens = request->prompt_tokens,
          .answer_tokens = request->answer_tokens(),
          .reprocessed_tokens = request->reprocessed_tokens,
          .retractions = request->retractions,
          .arrival = request->arrival,
          .admitted = request->admitted};
}

RequestView Planner::end(RequestId id, EndKind kind) {
  const RequestView last = view(id);
  Request& request = *find(id);
  if (kind == EndKind::kComplete) estimate_.record({}, request.answer_tokens());
  if (request.memory) {
    if (options_.use_cache && kind != EndKind::kFailed)
      request.memory->donate(request.tokens, request.committed);
    request.memory->release();
  }
  remove_from_lists(request);
  requests_.erase(id);
  return last;
}

void Planner::remove_from_lists(const Request& request) {
  queue_.remove(request.id);
  if (request.deadline) deadlines_.erase({*request.deadline, request.id});
  std::erase(active_, &request);
}

// --- Results ------------------------------------------------------------------------------------

void Planner::commit_step(double elapsed_ms) {
  CHECK(!in_flight_.empty(), "no step is in flight");
  const InFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  if (elapsed_ms > 0) {
    cost_.correct(step.work, elapsed_ms);
    // Seldom: every state in the cache gets a new value.
    if (++measured_steps_ >= 32 && std::has_single_bit(measured_steps_)) {
      cache_.learn_cost(cost_.prefill_cost(options_.prefill_chunk));
    }
  }
  const auto tokens = static_cast<double>(step.work.prefill_tokens + step.work.decode_rows);
  for (const InFlight::Row& row : step.rows) {
    queue_.charge(row.tenant, elapsed_ms * static_cast<double>(row.tokens) / tokens);
    Request* request = find(row.request);
    if (request == nullptr) {
      ++counters_.wasted_rows;
      continue;
    }
    --request->steps_in_flight;
    if (row.admission != request->admissions || !request->memory) continue;
    request->committed = row.end;
    request->memory->drop_older_snapshots(row.end);
  }
}

bool Planner::commit_token(RequestId id, TokenId token) {
  Request* request = find(id);
  if (request == nullptr) return false;
  request->tokens.push_back(token);
  return true;
}

bool Planner::is_full(RequestId id) const {
  const Request* request = find(id);
  CHECK(request != nullptr, "request {} has ended", id.value);
  return request->answer_tokens() >= request->max_tokens;
}

// --- Planning -----------------------------------------------------------------------------------

void Planner::plan(StepPlan& plan, std::vector<EndedRequest>& ended) {
  plan.clear();
  drop_expired(ended);
  do {
    scheduled_.clear();
    admitted_.clear();
    schedule_decodes(ended);
    schedule_prefills();
  } while (scheduled_.empty() && is_stuck() && give_way(ended));
  if (scheduled_.empty()) return;
  take_snapshots();
  write(plan);
  hand_over();
}

// Nobody can go on, and no result is to come that changes it: prompts keep each other from memory.
bool Planner::is_stuck() const { return in_flight_.empty() && !active_.empty(); }

void Planner::schedule_decodes(std::vector<EndedRequest>& ended) {
  if (!make_room_for_decodes(ended)) return;
  for (Request* request : active_) {
    if (!decodes(*request)) continue;
    CHECK(request->memory->grow(request->planned + 1), "no page although room was made");
    scheduled_.push_back({.request = request, .tokens = 1});
  }
}

bool Planner::decodes(const Request& request) const {
  return request.state == RequestState::kRunning && request.samples_planned < request.max_tokens;
}

// Prompts under way and those that wait take turns, or one long prompt would keep all others from
// their first token.
void Planner::schedule_prefills() {
  std::int64_t budget = prefill_budget();
  std::vector<Request*> under_way;
  for (Request* request : active_) {
    if (request->state == RequestState::kPrefilling) under_way.push_back(request);
  }
  ++turn_;
  if (!under_way.empty()) {
    const auto first = static_cast<std::ptrdiff_t>(turn_ % under_way.size());
    std::rotate(under_way.begin(), under_way.begin() + first, under_way.end());
  }
  const bool newcomers_first = turn_ % 2 == 0;
  if (newcomers_first) admit_from_queue(budget);
  for (Request* request : under_way) {
    if (request->state != RequestState::kPrefilling) continue;  // gave way to a newcomer
    if (schedule_chunk(*request, budget)) budget -= scheduled_.back().tokens;
  }
  if (!newcomers_first) admit_from_queue(budget);
}

std::int64_t Planner::prefill_budget() const {
  const auto decode_rows = static_cast<std::int64_t>(scheduled_.size());
  if (decode_rows == 0) return options_.prefill_chunk;
  const std::int64_t grid = cache_.options().grid_tokens;
  const std::int64_t most = options_.prefill_chunk / grid * grid;
  const std::int64_t least = std::min(most, (options_.min_prefill_chunk + grid - 1) / grid * grid);
  std::int64_t context = 0;
  for (const Request* request : active_) {
    if (request->state == RequestState::kPrefilling) context = std::max(context, request->planned);
  }
  return cost_.largest_prefill({.step_ms = options_.step_budget_ms,
                                .grid_tokens = grid,
                                .min_tokens = least,
                                .max_tokens = most},
                               context, decode_rows);
}

// Every cut of a prompt falls on the grid: states can be kept only there, and kernels that work by
// chunks of tokens then see the same chunks however the prompt is cut.
std::int64_t Planner::chunk_tokens(const Request& request, std::int64_t limit) const {
  const std::int64_t left = request.prefill_end - request.planned;
  if (left <= limit) return left;
  const std::int64_t grid = cache_.options().grid_tokens;
  return (request.planned + limit) / grid * grid - request.planned;
}

// False if there is no room, or no whole grid step in the limit.
bool Planner::schedule_chunk(Request& request, std::int64_t limit) {
  const std::int64_t tokens = chunk_tokens(request, limit);
  if (tokens <= 0 || !request.memory->grow(request.planned + tokens)) return false;
  scheduled_.push_back({.request = &request, .tokens = tokens});
  return true;
}

// After all rows have their memory: a checkpoint is worth something, but never worth a token.
void Planner::take_snapshots() {
  if (!options_.use_cache) return;
  for (Scheduled& scheduled : scheduled_) {
    Request& request = *scheduled.request;
    const std::int64_t end = request.planned + scheduled.tokens;
    if (request.state == RequestState::kRunning && end % options_.track_interval == 0) {
      take_snapshot(scheduled, {.depth_tokens = end, .reason = CheckpointReason::kAnswer});
    }
    while (!request.checkpoints.empty() && request.checkpoints.front().depth_tokens <= end) {
      take_snapshot(scheduled, request.checkpoints.front());
      request.checkpoints.erase(request.checkpoints.begin());
    }
  }
}

void Planner::take_snapshot(Scheduled& scheduled, const PlannedCheckpoint& wanted) {
  RequestMemory& memory = *scheduled.request->memory;
  if (!memory.add_snapshot(wanted.depth_tokens, wanted.reason)) {
    ++counters_.snapshots_skipped;
    return;
  }
  ++counters_.snapshots;
  scheduled.snapshots.push_back({wanted.depth_tokens, memory.last_snapshot()});
}

// --- The plan -----------------------------------------------------------------------------------

// After the last allocation of the step: from here on no entry moves.
void Planner::write(StepPlan& plan) {
  plan.sequence = ++last_sequence_;
  arena_.take_moves(plan.moves);
  for (Request* request : admitted_) {
    const std::int64_t work = arena_.offset(request->memory->work());
    if (request->memory->has_checkpoint()) {
      plan.restores.push_back({arena_.offset(request->memory->checkpoint()), work});
      ++counters_.restores;
    } else {
      plan.clears.push_back(work);
    }
  }
  InFlight& step = in_flight_.emplace_back();
  for (const Scheduled& scheduled : scheduled_) {
    write_row(scheduled, plan);
    Request& request = *scheduled.request;
    step.rows.push_back(
        {request.id, request.tenant, request.admissions, scheduled.tokens, request.planned});
    ++request.steps_in_flight;
  }
  ++counters_.steps;
}

void Planner::write_row(const Scheduled& scheduled, StepPlan& plan) {
  Request& request = *scheduled.request;
  StepRow row{.request = request.id,
              .start = request.planned,
              .tokens = {plan.tokens.size(), index(scheduled.tokens)},
              .state_offset = arena_.offset(request.memory->work()),
              .pages = {plan.page_offsets.size(), 0}};
  for (std::int64_t at = row.start; at < row.start + scheduled.tokens; ++at) {
    row.follows_sample = at >= request.known();
    plan.tokens.push_back(row.follows_sample ? -1 : request.tokens[index(at)]);
  }
  const std::int64_t page_tokens = cache_.options().page_tokens;
  const std::int64_t end = row.start + scheduled.tokens;
  row.pages.count = index((end + page_tokens - 1) / page_tokens);
  for (const PageId page : request.memory->pages().first(row.pages.count)) {
    plan.page_offsets.push_back(arena_.offset(page));
  }
  for (const auto& [depth_tokens, slot] : scheduled.snapshots) {
    plan.snapshots.push_back({.row = plan.rows.size(),
                              .tokens = depth_tokens - row.start,
                              .dst_offset = arena_.offset(slot)});
  }

  const bool prefilling = request.state == RequestState::kPrefilling;
  (prefilling ? counters_.prefill_tokens : counters_.decode_tokens) += scheduled.tokens;
  StepWork& work = in_flight_.back().work;
  if (prefilling) {
    const std::int64_t before = work.prefill_context_tokens * work.prefill_tokens;
    work.prefill_tokens += scheduled.tokens;
    work.prefill_context_tokens = (before + row.start * scheduled.tokens) / work.prefill_tokens;
  } else {
    ++work.decode_rows;
  }
  if (prefilling && request.admissions > 1) {
    request.reprocessed_tokens += scheduled.tokens;
    counters_.reprocessed_tokens += scheduled.tokens;
  }
  request.planned = end;
  row.samples = !prefilling || end == request.prefill_end;
  if (row.samples) {
    ++request.samples_planned;
    request.state = RequestState::kRunning;
  }
  plan.rows.push_back(row);
}

// What the step makes is written when any later step reads it, so the tree may have it now.
void Planner::hand_over() {
  for (Request* request : admitted_) request->memory->release_checkpoint();
  if (!options_.use_cache) return;
  for (const Scheduled& scheduled : scheduled_) {
    Request& request = *scheduled.request;
    // Of an answer only the last state is kept, and only its end says which that is.
    if (request.planned <= request.prefill_end) {
      request.memory->donate(request.tokens, request.planned);
    }
  }
}

}  // namespace tandem
