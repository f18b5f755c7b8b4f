#include "text/grammar/grammar_cache.h"

namespace tandem {

Result<Grammar::Pointer> GrammarCache::get(
    const std::string& key, const std::function<Result<Grammar::Pointer>()>& compile) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(key);
    if (found != by_key_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->second;
    }
  }
  Grammar::Pointer made = TRY(compile());
  const std::lock_guard lock(mutex_);
  if (by_key_.contains(key)) return made;  // another thread was faster
  entries_.emplace_front(key, made);
  by_key_.emplace(key, entries_.begin());
  if (entries_.size() > kMaxGrammars) {
    by_key_.erase(entries_.back().first);
    entries_.pop_back();
  }
  return made;
}

}  // namespace tandem
