// Which requests get memory, and which lose it.
#include <algorithm>

#include "base/check.h"
#include "schedule/planner.h"

namespace tandem {
namespace {

// How many of those that wait are looked at in one step.
constexpr std::size_t kCandidates = 32;

// Where nobody says what of a prompt is history: so much of its end may well differ next time, such
// as a question after a long text.
constexpr std::int64_t kTailTokens = 32;

// Tokens at the beginning that both have.
std::int64_t common_tokens(std::span<const TokenId> a, std::span<const TokenId> b) {
  const std::size_t shorter = std::min(a.size(), b.size());
  const auto end =
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(shorter), b.begin());
  return end.first - a.begin();
}

}  // namespace

// --- In -----------------------------------------------------------------------------------------

QueuedRequest Planner::queue_entry(const Request& request) const {
  return {.id = request.id,
          .tenant = request.tenant,
          .weight = request.tenant_weight,
          .priority = request.priority,
          .arrival = request.arrival,
          .deadline = request.deadline,
          .work = prefill_work(request, match(request)),
          .max_new_tokens = request.max_tokens};
}

PrefillWork Planner::prefill_work(const Request& request, const PrefixMatch& found) const {
  const auto& prefill_ms = cache_.options().prefill_cost;
  const double hit_ms = prefill_ms(found.usable_tokens);
  return {.hit_ms = hit_ms, .remaining_ms = prefill_ms(request.known()) - hit_ms};
}

void Planner::drop_expired(std::vector<EndedRequest>& ended) {
  const TimePoint now = clock_.now();
  while (!deadlines_.empty() && deadlines_.begin()->first < now) {
    const RequestId late = deadlines_.begin()->second;
    ended.push_back({late,
                     FinishReason::kError,
                     {StatusCode::kDeadlineExceeded, "the request waited longer than its deadline"},
                     end(late, EndKind::kCutShort)});
  }
}

void Planner::admit_from_queue(std::int64_t& budget) {
  if (queue_.size() == 0) return;
  const std::int64_t grid_tokens = cache_.options().grid_tokens;
  for (const Candidate& candidate : queue_.candidates(clock_.now(), kCandidates)) {
    if (budget <= 0) return;
    Request& request = *find(candidate.id);
    // The token of a step in flight belongs to the prompt that is computed again.
    if (request.steps_in_flight > 0) {
      if (candidate.blocks) return;
      continue;
    }
    const PrefixMatch found = match(request);
    if (!candidate.blocks && waits_for_prefix(request, found)) continue;
    // Else it would be refused for want of tokens, and somebody would give way for nothing.
    if (budget < std::min(grid_tokens, request.known() - found.usable_tokens)) return;
    if (!admit(request, budget) && !(preempt_for(request, found) && admit(request, budget))) {
      queue_.update_work(request.id, prefill_work(request, found));
      return;
    }
    queue_.admit(request.id);
    budget -= scheduled_.back().tokens;
  }
}

PrefixMatch Planner::match(const Request& request) const {
  const std::int64_t limit = options_.use_cache ? request.reusable() : 0;
  return cache_.match(request.cache_key, request.tokens, limit);
}

bool Planner::admit(Request& request, std::int64_t budget) {
  if (static_cast<std::int64_t>(active_.size()) >= options_.max_running) return false;
  const PrefixMatch found = match(request);
  if (admit(request, found, budget)) return true;
  // A checkpoint is there beside the working state until it was copied. Where the memory holds the
  // request and not that, too, there is nobody to wait for: it starts from nothing.
  if (!active_.empty() || found.usable_tokens == 0) return false;
  if (!admit(request, cache_.match(request.cache_key, request.tokens, 0), budget)) return false;
  if (request.admissions == 1) {
    request.cache = {.replayed_tokens = found.row_tokens,
                     .text_tokens = found.text_tokens,
                     .miss = CacheMiss::kEvicted};
  }
  return true;
}

bool Planner::admit(Request& request, const PrefixMatch& found, std::int64_t budget) {
  request.planned = found.usable_tokens;
  request.prefill_end = request.known();
  if (chunk_tokens(request, budget) <= 0) return false;
  const EntryCounts need = admission_need(request, found);
  request.memory.emplace(arena_, cache_, request.id);
  if (!request.memory->admit(request.cache_key, found, need)) {
    request.memory.reset();
    return false;
  }
  request.state = RequestState::kPrefilling;
  request.committed = request.planned;
  request.samples_planned = request.answer_tokens();
  request.checkpoints.clear();
  if (options_.use_cache) {
    const std::int64_t history = request.history_tokens > 0
                                     ? request.history_tokens
                                     : std::max<std::int64_t>(0, request.prefill_end - kTailTokens);
    request.checkpoints = plan_checkpoints(found, request.prefill_end, history,
                                           {.grid_tokens = cache_.options().grid_tokens,
                                            .min_spacing_tokens = options_.min_spacing_tokens});
  }
  if (++request.admissions == 1) {
    request.cache = cache_use(found);
    request.admitted = clock_.now();
  }
  if (request.deadline) deadlines_.erase({*request.deadline, request.id});
  active_.push_back(&request);
  admitted_.push_back(&request);
  CHECK(schedule_chunk(request, budget), "request {} was admitted without room", request.id.value);
  return true;
}

// The whole prompt and what its answer may take, beside what was promised before: one that cannot
// finish would hold what others need.
EntryCounts Planner::admission_need(const Request& request, const PrefixMatch& found) const {
  const std::int64_t page_tokens = cache_.options().page_tokens;
  const std::int64_t rows = request.known() + expected_tokens(request) - found.usable_tokens;
  return {.states = 1, .pages = (rows + page_tokens - 1) / page_tokens + promised_pages()};
}

// Retracts requests of lower priority, the lowest and newest first, until there is a place and
// room; none if all of them would not make it.
bool Planner::preempt_for(const Request& request, const PrefixMatch& found) {
  if (!options_.preempt_above) return false;
  std::vector<Request*> lower;
  for (Request* other : active_) {
    if (std::int64_t{other->priority} + *options_.preempt_above < request.priority)
      lower.push_back(other);
  }
  std::sort(lower.begin(), lower.end(), [](const Request* a, const Request* b) {
    return a->priority != b->priority ? a->priority < b->priority : b->id < a->id;
  });
  EntryCounts freed = cache_.evictable();
  for (std::size_t count = 0; count < lower.size(); ++count) {
    const EntryCounts owned = lower[count]->memory->owned();
    freed.states += owned.states;
    freed.pages += owned.pages;
    if (!arena_.can_allocate_after_freeing(admission_need(request, found), freed)) continue;
    for (std::size_t i = 0; i <= count; ++i) retract(*lower[i]);
    return true;
  }
  return false;
}

// How many tokens of an answer are still to come, to be on the safe side. Where nobody else runs a
// single one will do: add() has bounded the rest by what the arena holds.
std::int64_t Planner::expected_tokens(const Request& request) const {
  if (active_.empty()) return 1;
  return std::max<std::int64_t>(
      1, estimate_.remaining_tokens({}, request.answer_tokens(), request.max_tokens));
}

// Pages that those who were admitted are still to take.
std::int64_t Planner::promised_pages() const {
  std::int64_t pages = 0;
  for (const Request* request : active_) {
    pages += request->memory->missing_pages(request->known() + expected_tokens(*request));
  }
  return pages;
}

// Whether somebody is computing what the request would compute, too. Then it is cheaper to wait,
// and a state is asked for where the two part.
bool Planner::waits_for_prefix(const Request& request, const PrefixMatch& found) {
  if (!options_.use_cache) return false;
  const std::int64_t grid = cache_.options().grid_tokens;
  for (Request* leader : active_) {
    if (leader->state != RequestState::kPrefilling || leader->cache_key != request.cache_key)
      continue;
    const std::int64_t shared =
        std::min(common_tokens(leader->tokens, request.tokens), request.reusable());
    const std::int64_t depth = std::min(shared, leader->prefill_end) / grid * grid;
    if (depth <= found.usable_tokens || depth <= leader->planned) continue;
    const auto at = std::lower_bound(
        leader->checkpoints.begin(), leader->checkpoints.end(), depth,
        [](const PlannedCheckpoint& c, std::int64_t wanted) { return c.depth_tokens < wanted; });
    if (at == leader->checkpoints.end() || at->depth_tokens != depth) {
      leader->checkpoints.insert(at, {.depth_tokens = depth, .reason = CheckpointReason::kBranch});
      ++counters_.waits_for_prefix;
    }
    return true;
  }
  return false;
}

// --- Out ----------------------------------------------------------------------------------------

// Pages for the next token of everybody who runs. False if nobody runs.
bool Planner::make_room_for_decodes(std::vector<EndedRequest>& ended) {
  do {
    EntryCounts need;
    bool any = false;
    for (const Request* request : active_) {
      if (!decodes(*request)) continue;
      any = true;
      need.pages += request->memory->missing_pages(request->planned + 1);
    }
    if (!any) return false;
    if (cache_.evict_until(need)) return true;
  } while (give_way(ended));
  return false;
}

// Frees memory when evicting has not sufficed: snapshots first, then a request. False if nobody is
// left.
bool Planner::give_way(std::vector<EndedRequest>& ended) {
  bool dropped = false;
  for (Request* request : active_) {
    dropped = dropped || request->memory->snapshot_count() > 0;
    request->memory->drop_snapshots();
  }
  if (dropped) return true;
  if (Request* victim = choose_victim(); victim != nullptr) {
    retract(*victim);
    return true;
  }
  if (active_.empty()) return false;
  // Alone, and still no room: add() bounds a request by what an empty arena holds, so somebody
  // outside keeps entries of the tree.
  const RequestId last = active_.front()->id;
  ended.push_back({last,
                   FinishReason::kError,
                   {StatusCode::kResourceExhausted, "no memory is left for the next token"},
                   end(last, EndKind::kCutShort)});
  return true;
}

// The request that costs least to compute again for each byte that it gives back. Never the oldest
// of those that are left: it gets to its end, and so everybody does.
Request* Planner::choose_victim() {
  const auto& prefill_ms = cache_.options().prefill_cost;
  const ArenaGeometry& geometry = arena_.geometry();
  Request* victim = nullptr;
  double least = 0;
  bool victim_spent = false;
  const Request* oldest = nullptr;
  for (const Request* request : active_) {
    if (oldest == nullptr || request->priority > oldest->priority ||
        (request->priority == oldest->priority && request->id < oldest->id)) {
      oldest = request;
    }
  }
  for (Request* request : active_) {
    if (request == oldest) continue;
    const EntryCounts owned = request->memory->owned();
    const double bytes = static_cast<double>(owned.states * geometry.state_bytes +
                                             owned.pages * geometry.page_bytes);
    const PrefixMatch again = match(*request);
    const double cost = (prefill_ms(request->planned) - prefill_ms(again.usable_tokens)) / bytes;
    const bool spent = request->retractions >= options_.max_retractions;
    const bool better = victim == nullptr ? true
                        : request->priority != victim->priority
                            ? request->priority < victim->priority
                        : spent != victim_spent ? victim_spent
                                                : cost < least;
    if (!better) continue;
    victim = request;
    least = cost;
    victim_spent = spent;
  }
  return victim;
}

void Planner::retract(Request& request) {
  if (options_.use_cache) request.memory->donate(request.tokens, request.committed);
  request.memory->release();
  request.memory.reset();
  remove_from_lists(request);
  request.state = RequestState::kQueued;
  ++request.retractions;
  ++counters_.retractions;
  std::erase_if(scheduled_, [&](const Scheduled& s) { return s.request == &request; });
  std::erase(admitted_, &request);
  queue_.reinsert(queue_entry(request));
}

// --- Self-check ---------------------------------------------------------------------------------

Result<void> Planner::integrity_check() const {
  TRY(arena_.integrity_check());
  TRY(cache_.integrity_check());
  EntryCounts owned;
  for (const auto& [id, request] : requests_) {
    const bool queued = queue_.find(id) != nullptr;
    const bool active = std::count(active_.begin(), active_.end(), request.get()) == 1;
    if (queued == active || queued != (request->state == RequestState::kQueued) ||
        active != request->memory.has_value()) {
      return fail(StatusCode::kInternal, "request {} is not in the one list of its state",
                  id.value);
    }
    if (!active) continue;
    const EntryCounts its = request->memory->owned();
    owned.states += its.states;
    owned.pages += its.pages;
    if (request->committed > request->planned ||
        request->memory->missing_pages(request->planned) != 0) {
      return fail(StatusCode::kInternal, "request {} has {} tokens committed, {} planned, {} pages",
                  id.value, request->committed, request->planned, request->memory->pages().size());
    }
  }
  if (queue_.size() + active_.size() != requests_.size()) {
    return fail(StatusCode::kInternal, "{} queued and {} active of {} requests", queue_.size(),
                active_.size(), requests_.size());
  }
  const PrefixUsage cached = cache_.usage();
  const EntryCounts taken = arena_.usage().taken;
  if (taken != EntryCounts{owned.states + cached.states, owned.pages + cached.pages}) {
    return fail(StatusCode::kInternal,
                "{} states and {} pages are taken; requests own {} and {}, the tree {} and {}",
                taken.states, taken.pages, owned.states, owned.pages, cached.states, cached.pages);
  }
  return {};
}

}  // namespace tandem
