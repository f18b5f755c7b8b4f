// Which requests get memory, and which lose it.
#include <algorithm>

#include "base/check.h"
#include "schedule/planner.h"

namespace tandem {
namespace {

// Tokens at the beginning that both have.
std::int64_t common_tokens(std::span<const TokenId> a, std::span<const TokenId> b) {
  const std::size_t shorter = std::min(a.size(), b.size());
  const auto end =
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(shorter), b.begin());
  return end.first - a.begin();
}

}  // namespace

// --- In -----------------------------------------------------------------------------------------

void Planner::admit_from_queue(std::int64_t& budget) {
  for (std::size_t at = 0; at < queue_.size() && budget > 0;) {
    if (static_cast<std::int64_t>(active_.size()) >= options_.max_running) return;
    Request& request = *queue_[at];
    // The token of a step in flight belongs to the prompt that is computed again.
    if (request.steps_in_flight > 0 || waits_for_prefix(request, match(request))) {
      ++at;
      continue;
    }
    if (!admit(request, budget)) return;
    queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(at));
    budget -= scheduled_.back().tokens;
  }
}

PrefixMatch Planner::match(const Request& request) const {
  // One token must be computed for logits.
  const std::int64_t limit = options_.use_cache ? request.known() - 1 : 0;
  return cache_.match(request.cache_key, request.tokens, limit);
}

bool Planner::admit(Request& request, std::int64_t budget) {
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
  // The whole prompt and the next token, beside what was promised before: one that cannot finish
  // its prompt would hold what others need.
  const std::int64_t page_tokens = cache_.options().page_tokens;
  const std::int64_t rows = request.prefill_end + 1 - found.usable_tokens;
  const std::int64_t pages = (rows + page_tokens - 1) / page_tokens + promised_pages();
  request.memory.emplace(arena_, cache_, request.id);
  if (!request.memory->admit(request.cache_key, found, {.states = 1, .pages = pages})) {
    request.memory.reset();
    return false;
  }
  request.state = RequestState::kPrefilling;
  request.committed = request.planned;
  request.samples_planned = request.answer_tokens();
  request.checkpoints.clear();
  if (options_.use_cache) {
    request.checkpoints = plan_checkpoints(found, request.prefill_end, request.history_tokens,
                                           {.grid_tokens = cache_.options().grid_tokens,
                                            .min_spacing_tokens = options_.min_spacing_tokens});
  }
  if (++request.admissions == 1) {
    request.cache = cache_use(found);
    request.admitted = clock_.now();
  }
  active_.push_back(&request);
  admitted_.push_back(&request);
  CHECK(schedule_chunk(request, budget), "request {} was admitted without room", request.id.value);
  return true;
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
        std::min(common_tokens(leader->tokens, request.tokens), request.known() - 1);
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
    if (oldest == nullptr || request->id < oldest->id) oldest = request;
  }
  for (Request* request : active_) {
    if (request == oldest) continue;
    const EntryCounts owned = request->memory->owned();
    const double bytes = static_cast<double>(owned.states * geometry.state_bytes +
                                             owned.pages * geometry.page_bytes);
    const PrefixMatch again = match(*request);
    const double cost = (prefill_ms(request->planned) - prefill_ms(again.usable_tokens)) / bytes;
    const bool spent = request->retractions >= options_.max_retractions;
    const bool better = victim == nullptr || (spent != victim_spent ? victim_spent : cost < least);
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
  const auto later = std::find_if(queue_.begin(), queue_.end(),
                                  [&](const Request* other) { return request.id < other->id; });
  queue_.insert(later, &request);
}

// --- Self-check ---------------------------------------------------------------------------------

Result<void> Planner::integrity_check() const {
  TRY(arena_.integrity_check());
  TRY(cache_.integrity_check());
  EntryCounts owned;
  for (const auto& [id, request] : requests_) {
    const bool queued = std::count(queue_.begin(), queue_.end(), request.get()) == 1;
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
