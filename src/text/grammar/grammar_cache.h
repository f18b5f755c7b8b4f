// Compiled grammars, kept for requests that ask for them again.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "text/grammar/grammar.h"

namespace tandem {

// Keeps those asked for last, and the sources that were refused. Thread-safe. Two threads that miss
// the same grammar both compile it.
class GrammarCache {
 public:
  // Of kMaxGrammars with the largest number of states and full mask caches, about 0.5 GiB.
  static constexpr std::size_t kMaxGrammars = 32;

  // get() would not compile.
  bool contains(const std::string& key) const;

  // `compile` runs on the caller's thread if `key` is not there.
  Result<Grammar::Pointer> get(const std::string& key,
                               const std::function<Result<Grammar::Pointer>()>& compile);

 private:
  using Entry = std::pair<std::string, Result<Grammar::Pointer>>;
  void keep(const std::string& key, const Result<Grammar::Pointer>& made);

  mutable std::mutex mutex_;  // guards what follows
  std::list<Entry> entries_;  // the one used last first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
};

}  // namespace tandem
