#include "text/grammar/grammar_cache.h"

namespace tandem {

bool GrammarCache::contains(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  return by_key_.contains(key);
}

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
  Result<Grammar::Pointer> made = compile();
  const std::lock_guard lock(mutex_);
  keep(key, made);
  return made;
}

void GrammarCache::keep(const std::string& key, const Result<Grammar::Pointer>& made) {
  if (by_key_.contains(key)) return;  // another thread was faster
  entries_.emplace_front(key, made);
  by_key_.emplace(key, entries_.begin());
  if (entries_.size() > kMaxGrammars) {
    by_key_.erase(entries_.back().first);
    entries_.pop_back();
  }
}

}  // namespace tandem
