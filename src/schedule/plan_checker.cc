#include "schedule/plan_checker.h"

#include <algorithm>
#include <set>

namespace tandem {
namespace {

template <typename... Args>
Result<void> wrong(fmt::format_string<Args...> format, Args&&... args) {
  return fail(StatusCode::kInternal, format, std::forward<Args>(args)...);
}

std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }

std::int64_t pages_for(std::int64_t tokens, std::int64_t page_tokens) {
  return (tokens + page_tokens - 1) / page_tokens;
}

}  // namespace

int PlanChecker::retractions(RequestId id) const {
  if (at_.planner->contains(id)) return at_.planner->view(id).retractions;
  return at_.answers.at(id).ended.view.retractions;
}

void PlanChecker::forget_gone() {
  std::erase_if(active_, [this](const auto& entry) {
    return !at_.planner->contains(entry.first) ||
           retractions(entry.first) > entry.second.retractions;
  });
}

// --- Who gives way ------------------------------------------------------------------------------

void PlanChecker::before_plan() {
  forget_gone();
  retractions_so_far_ = at_.planner->counters().retractions;
  retractions_before_.clear();
  EntryCounts need;
  bool any_runs = false;
  for (const auto& [id, request] : active_) {
    retractions_before_[id] = request.retractions;
    if (!request.has_sampled) continue;
    any_runs = true;
    need.pages += pages_for(request.planned + 1, setup_.page_tokens) -
                  pages_for(request.planned, setup_.page_tokens);
  }
  nobody_need_give_way_ = at_.cache->can_make_room(need) &&
                          (any_runs || at_.planner->steps_in_flight() > 0 || active_.empty());
}

Result<void> PlanChecker::after_plan() {
  const std::int64_t retracted = at_.planner->counters().retractions - retractions_so_far_;
  if (retracted == 0) return {};
  if (nobody_need_give_way_) return wrong("{} gave way although evicting makes room", retracted);
  const int limit = setup_.planner.max_retractions;
  for (const auto& [id, before] : retractions_before_) {
    if (retractions(id) == before) continue;
    if (id == retractions_before_.begin()->first)
      return wrong("{}, the oldest, gave way", id.value);
    if (before < limit) continue;
    for (const auto& [other, others] : retractions_before_) {
      const bool was_spared = retractions(other) == others;
      if (was_spared && others < limit && other != retractions_before_.begin()->first) {
        return wrong("{} gave way {} times, {} only {}", id.value, before + 1, other.value, others);
      }
    }
  }
  return {};
}

// --- One plan -----------------------------------------------------------------------------------

Result<void> PlanChecker::check(const StepPlan& plan) {
  forget_gone();
  if (plan.sequence != ++sequence_) return wrong("step {} came as {}", sequence_, plan.sequence);
  TRY(follow_moves(plan.moves));
  std::set<RequestId> seen;
  std::size_t admissions = 0;
  for (const StepRow& row : plan.rows) {
    if (!seen.insert(row.request).second) return wrong("two rows of {}", row.request.value);
    if (!active_.contains(row.request)) {
      ++admissions;
      TRY(check_admission(plan, row));
    }
    TRY(check_row(plan, row));
  }
  if (plan.clears.size() + plan.restores.size() != admissions) {
    return wrong("{} clears and {} restores for {} that were admitted", plan.clears.size(),
                 plan.restores.size(), admissions);
  }
  TRY(check_budget(plan));
  TRY(check_states(plan));
  TRY(check_pages(plan));
  share_snapshots(plan);
  return {};
}

// What is tracked goes where the moves bring it.
Result<void> PlanChecker::follow_moves(std::span<const Move> moves) {
  if (moves.empty()) return {};
  std::map<std::int64_t, std::int64_t*> states;
  std::map<std::int64_t, std::int64_t*> pages;
  for (auto& [id, request] : active_) {
    states[request.work] = &request.work;
    for (std::size_t i = request.shared; i < request.pages.size(); ++i) {
      pages[request.pages[i]] = &request.pages[i];
    }
  }
  for (const Move& move : moves) {
    auto& places = move.kind == EntryKind::kState ? states : pages;
    if (places.contains(move.dst_offset)) return wrong("a move onto a live {}", move.dst_offset);
    if (!places.contains(move.src_offset)) continue;
    auto node = places.extract(move.src_offset);
    *node.mapped() = node.key() = move.dst_offset;
    places.insert(std::move(node));
  }
  return {};
}

Result<void> PlanChecker::check_admission(const StepPlan& plan, const StepRow& row) {
  const auto clears = std::count(plan.clears.begin(), plan.clears.end(), row.state_offset);
  const auto restores =
      std::count_if(plan.restores.begin(), plan.restores.end(),
                    [&](const StateCopy& copy) { return copy.dst_offset == row.state_offset; });
  if (clears != (row.start == 0 ? 1 : 0) || restores != (row.start == 0 ? 0 : 1)) {
    return wrong("{} starts at {} with {} clears and {} restores", row.request.value, row.start,
                 clears, restores);
  }
  active_[row.request] = {.retractions = retractions(row.request),
                          .planned = row.start,
                          .work = row.state_offset,
                          .pages = {},
                          .shared = index(row.start / setup_.page_tokens)};
  return {};
}

Result<void> PlanChecker::check_row(const StepPlan& plan, const StepRow& row) {
  Active& request = active_.at(row.request);
  const std::int64_t end = row.start + static_cast<std::int64_t>(row.tokens.count);
  const std::span<const std::int64_t> pages = plan.pages_of(row);
  if (row.start != request.planned || row.tokens.count == 0) {
    return wrong("{} goes on at {}, not {}", row.request.value, row.start, request.planned);
  }
  if (row.state_offset != request.work) return wrong("{} lost its state", row.request.value);
  if (pages.size() != index(pages_for(end, setup_.page_tokens))) {
    return wrong("{} has {} pages for {} tokens", row.request.value, pages.size(), end);
  }
  for (std::size_t i = request.shared; i < request.pages.size(); ++i) {
    if (pages[i] != request.pages[i]) return wrong("{} lost page {}", row.request.value, i);
  }
  const bool decodes = request.has_sampled;
  if ((decodes && (row.tokens.count != 1 || !row.samples)) || (row.follows_sample && !decodes)) {
    return wrong("a row of {} neither decodes nor computes a prompt", row.request.value);
  }
  if (!row.samples && end % setup_.grid_tokens != 0) {
    return wrong("the prompt of {} is cut at {}", row.request.value, end);
  }
  request.pages.assign(pages.begin(), pages.end());
  request.planned = end;
  return {};
}

Result<void> PlanChecker::check_budget(const StepPlan& plan) const {
  std::int64_t prompt_tokens = 0;
  for (const StepRow& row : plan.rows) {
    if (!active_.at(row.request).has_sampled) {
      prompt_tokens += static_cast<std::int64_t>(row.tokens.count);
    }
  }
  if (prompt_tokens > setup_.planner.prefill_chunk ||
      static_cast<std::int64_t>(active_.size()) > setup_.planner.max_running) {
    return wrong("{} prompt tokens in one step, {} requests active", prompt_tokens, active_.size());
  }
  return {};
}

// Working states, snapshots and what is restored from lie apart, below all pages.
Result<void> PlanChecker::check_states(const StepPlan& plan) const {
  const ArenaGeometry& geometry = at_.arena->geometry();
  std::int64_t pages_from = geometry.buffer_bytes();
  for (const std::int64_t page : plan.page_offsets) pages_from = std::min(pages_from, page);
  std::set<std::int64_t> written;
  const auto write = [&](std::int64_t state) -> Result<void> {
    if (!written.insert(state).second) return wrong("two writers of the state at {}", state);
    if (state < geometry.sink_bytes() || state + geometry.state_bytes > pages_from) {
      return wrong("the state at {} lies outside the states", state);
    }
    return {};
  };
  for (const auto& [id, request] : active_) TRY(write(request.work));
  for (const Snapshot& snapshot : plan.snapshots) {
    TRY(write(snapshot.dst_offset));
    const StepRow& row = plan.rows.at(snapshot.row);
    if (snapshot.tokens < 1 || snapshot.tokens > static_cast<std::int64_t>(row.tokens.count) ||
        (row.start + snapshot.tokens) % setup_.grid_tokens != 0) {
      return wrong("a snapshot after {} tokens of a row from {}", snapshot.tokens, row.start);
    }
  }
  for (const StateCopy& restore : plan.restores) {
    if (written.contains(restore.src_offset)) {
      return wrong("{} is restored from and written", restore.src_offset);
    }
  }
  return {};
}

// Rows are written into pages that nobody else reads, and the tree's pages are nobody's own.
Result<void> PlanChecker::check_pages(const StepPlan& plan) const {
  std::set<std::int64_t> own;
  for (const auto& [id, request] : active_) {
    for (std::size_t i = request.shared; i < request.pages.size(); ++i) {
      if (!own.insert(request.pages[i]).second) return wrong("two own page {}", request.pages[i]);
    }
  }
  for (const StepRow& row : plan.rows) {
    const std::size_t shared = active_.at(row.request).shared;
    if (index(row.start / setup_.page_tokens) < shared) {
      return wrong("{} writes into the tree's pages", row.request.value);
    }
    for (const std::int64_t page : plan.pages_of(row).first(shared)) {
      if (own.contains(page)) return wrong("{} reads page {} of another", row.request.value, page);
    }
  }
  return {};
}

// With the snapshots of a prompt, the rows before them become the tree's once the plan is made.
void PlanChecker::share_snapshots(const StepPlan& plan) {
  for (const Snapshot& snapshot : plan.snapshots) {
    const StepRow& row = plan.rows[snapshot.row];
    Active& request = active_.at(row.request);
    if (request.has_sampled) continue;
    request.shared = index((row.start + snapshot.tokens) / setup_.page_tokens);
  }
  for (const StepRow& row : plan.rows) {
    Active& request = active_.at(row.request);
    request.has_sampled = request.has_sampled || row.samples;
  }
}

}  // namespace tandem
