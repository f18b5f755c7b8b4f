#include "serve/request_registry.h"

#include <vector>

namespace tandem {

Result<RequestRegistry::Lease> RequestRegistry::add(const std::string& name,
                                                    const std::string& field) {
  std::lock_guard lock(mutex_);
  const auto [entry, is_new] = numbers_.emplace(name, last_ + 1);
  if (!is_new) {
    return fail(Status{StatusCode::kInvalidArgument,
                       fmt::format("{}: '{}' is in flight already", field, name), field});
  }
  entries_.emplace(++last_, Entry{.name = name, .cancel = nullptr});
  return Lease(this, last_);
}

int RequestRegistry::abort(std::string_view prefix) {
  std::vector<std::function<void()>> cancels;
  int aborted = 0;
  {
    std::lock_guard lock(mutex_);
    for (auto at = numbers_.lower_bound(prefix);
         at != numbers_.end() && std::string_view(at->first).starts_with(prefix); ++at) {
      Entry& entry = entries_.at(at->second);
      entry.aborted = true;
      if (entry.cancel) cancels.push_back(entry.cancel);
      ++aborted;
    }
  }
  for (const auto& cancel : cancels) cancel();
  return aborted;
}

void RequestRegistry::remove(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(number);
  numbers_.erase(found->second.name);
  entries_.erase(found);
}

void RequestRegistry::set_cancel(std::uint64_t number, std::function<void()> cancel) {
  {
    std::lock_guard lock(mutex_);
    Entry& entry = entries_.at(number);
    if (!entry.aborted) {
      entry.cancel = std::move(cancel);
      return;
    }
  }
  cancel();
}

}  // namespace tandem
