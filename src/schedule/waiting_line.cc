#include "schedule/waiting_line.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/philox.h"

namespace tandem {
namespace {

constexpr double kPacesPerOctave = 8;

double since_epoch_ms(TimePoint time) { return milliseconds(TimePoint{}, time); }

int pace_of(double remaining_ms) {
  return static_cast<int>(std::ceil(kPacesPerOctave * std::log2(std::max(1.0, remaining_ms))));
}

double pace_ms(int pace) { return std::exp2(pace / kPacesPerOctave); }

}  // namespace

QueueRank rank_of(const QueuedRequest& request, QueuePolicy policy, std::uint64_t seed) {
  const PrefillWork& work = request.work;
  switch (policy) {
    case QueuePolicy::kAuto:
      return {pace_of(work.remaining_ms), since_epoch_ms(request.arrival) - work.hit_ms};
    case QueuePolicy::kResponseRatio:
      return {pace_of(work.remaining_ms), since_epoch_ms(request.arrival)};
    case QueuePolicy::kFirstCome:
      return {};
    case QueuePolicy::kLongestPrefix:
      return {.key_ms = -work.hit_ms};
    case QueuePolicy::kShortestPrefill:
      return {.key_ms = work.remaining_ms};
    case QueuePolicy::kLongestOutput:
      return {.key_ms = -static_cast<double>(request.max_new_tokens)};
    case QueuePolicy::kRandom:
      return {.key_ms = philox_uniform(seed, request.id.value)};
  }
  CHECK(false, "no queue policy {}", static_cast<int>(policy));
}

void WaitingLine::add_to_pace(WaitingEntry& entry) { by_pace_[entry.rank.pace].insert(&entry); }

void WaitingLine::take_from_pace(WaitingEntry& entry) {
  const auto found = by_pace_.find(entry.rank.pace);
  CHECK(found != by_pace_.end() && found->second.erase(&entry) == 1,
        "request {} is missing in its line", entry.request.id.value);
  if (found->second.empty()) by_pace_.erase(found);
}

void WaitingLine::insert(WaitingEntry& entry) {
  entry.passed_here = 0;
  by_arrival_.insert(&entry);
  add_to_pace(entry);
}

void WaitingLine::erase(WaitingEntry& entry) {
  take_from_pace(entry);
  const auto at = by_arrival_.find(&entry);
  if (at == by_arrival_.begin()) {
    oldest_bypasses_ -= entry.passed_here;
  } else {
    (*std::prev(at))->passed_here += entry.passed_here;
  }
  by_arrival_.erase(at);
}

void WaitingLine::rerank(WaitingEntry& entry, QueueRank rank) {
  take_from_pace(entry);
  entry.rank = rank;
  add_to_pace(entry);
}

void WaitingLine::count_bypass(const Arrival& admitted) {
  if (by_arrival_.empty() || admitted < oldest().arrival()) return;
  // Most often all who wait are older than nobody but the admitted one's own followers.
  WaitingEntry* older = &newest();
  if (admitted < older->arrival()) older = *std::prev(by_arrival_.lower_bound(admitted));
  older->passed_here += 1;
  oldest_bypasses_ += 1;
}

WaitingEntry* WaitingLine::Cursor::oldest() {
  while (oldest_ != line_.by_arrival_.end() && (*oldest_)->listing == listing_) {
    oldest_bypasses_ -= (*oldest_)->passed_here;
    ++oldest_;
  }
  return oldest_ == line_.by_arrival_.end() ? nullptr : *oldest_;
}

bool WaitingLine::Cursor::settle(Head& head, double now_ms) const {
  while (head.at != head.order->end() && (*head.at)->listing == listing_) ++head.at;
  if (head.at == head.order->end()) return false;
  head.score = (now_ms - (*head.at)->rank.key_ms) / head.pace_ms;
  return true;
}

WaitingEntry* WaitingLine::Cursor::best(TimePoint now) {
  const double now_ms = since_epoch_ms(now);
  const auto worse = [](const Head& a, const Head& b) {
    if (a.score != b.score) return a.score < b.score;
    return (*a.at)->arrival() > (*b.at)->arrival();
  };
  if (!has_heads_) {
    has_heads_ = true;
    for (const auto& [pace, order] : line_.by_pace_) {
      Head head = {.score = 0, .at = order.begin(), .order = &order, .pace_ms = pace_ms(pace)};
      if (settle(head, now_ms)) heads_.push_back(head);
    }
    std::make_heap(heads_.begin(), heads_.end(), worse);
  }
  while (!heads_.empty()) {
    Head& front = heads_.front();
    if ((*front.at)->listing != listing_) return *front.at;
    std::pop_heap(heads_.begin(), heads_.end(), worse);
    if (settle(heads_.back(), now_ms)) {
      std::push_heap(heads_.begin(), heads_.end(), worse);
    } else {
      heads_.pop_back();
    }
  }
  return nullptr;
}

}  // namespace tandem
