// A shadow of the prefix cache for tests: one node per page, everything else found by looking at
// all there is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <vector>

#include "memory/prefix_testing.h"

namespace tandem::testing {

// What a planner can do to a cache. `a` and `b` choose among what is there, modulo its number.
struct PrefixOperation {
  enum Kind : std::uint8_t {
    kStart,         // a request with prompt a is matched and locked
    kDonate,        // request a donates some pages more, with up to three states
    kFinish,        // request a ends
    kReleaseState,  // request a has restored
    kEvict,         // the least valuable entry goes
    kMakeRoom,      // for some states and pages
    kWait,          // time passes
  };
  Kind kind = kStart;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
};
std::ostream& operator<<(std::ostream& stream, const PrefixOperation& operation);

// The end of one page of one or more prompts. Exists as long as its rows do.
struct ShadowNode {
  ShadowNode* parent = nullptr;
  std::int64_t depth = 0;
  std::map<std::vector<TokenId>, std::unique_ptr<ShadowNode>> children = {};  // by page
  PageId page = {};
  bool has_state = false;
  bool was_evicted = false;
  double frequency = 0;
  double base = 0;
  TimePoint used_at = {};
};

// A disagreement between the cache and its shadow.
template <typename... Args>
tl::unexpected<Status> differs(fmt::format_string<Args...> format, Args&&... args) {
  return fail(StatusCode::kInternal, format, std::forward<Args>(args)...);
}

// Random requests on a small cache, each answer compared with the shadow's.
class PrefixShadow {
 public:
  PrefixShadow(PrefixCacheOptions options, std::int64_t budget_pages);

  // Does it to both; an error is a disagreement.
  Result<void> apply(const PrefixOperation& operation);
  // Compares everything.
  Result<void> check() const;
  // Ends all requests and evicts all entries: nothing may be left.
  Result<void> finish();

  const PrefixCounters& counters() const { return at_.cache->counters(); }

 private:
  struct Request {
    int space = 0;  // which namespace
    std::vector<TokenId> prompt = {};
    PrefixLock lock = {};
    ShadowNode* rows = nullptr;
    ShadowNode* state = nullptr;
  };

  std::vector<TokenId> make_prompt(std::uint32_t a, std::uint32_t b);
  PrefixMatch match(int space, const std::vector<TokenId>& tokens, std::int64_t limit) const;
  Result<ShadowNode*> compare_match(int space, const std::vector<TokenId>& tokens,
                                    std::int64_t limit) const;

  Result<void> start(std::uint32_t a, std::uint32_t b);
  Result<void> donate(std::uint32_t a, std::uint32_t b);
  Result<void> finish_request(std::size_t at);
  void plant(ShadowNode& end, std::int64_t depth);
  void trim(ShadowNode& tail);
  void prune(ShadowNode* node);

  bool is_locked(const ShadowNode& node) const;
  bool is_state_locked(const ShadowNode& node) const;
  double value(const ShadowNode& node) const;
  bool is_found(const ShadowNode& node) const;
  Result<void> evict_one();
  Result<void> make_room(EntryCounts need, bool& made);

  Result<void> check_nodes(int space, const ShadowNode& node, std::vector<TokenId>& tokens,
                           PrefixUsage& sum) const;
  Result<void> check_locks() const;

  CacheFixture at_;
  std::vector<NamespaceKey> names_;
  std::vector<std::unique_ptr<ShadowNode>> roots_;  // by namespace
  std::vector<ShadowNode*> states_;                 // all nodes with a state
  std::vector<Request> requests_;
  std::vector<std::vector<TokenId>> prompts_;  // of the past, to be continued
  double clock_ = 0;                           // the eviction order's
  std::uint64_t draws_ = 0;
};

}  // namespace tandem::testing
