#include "memory/prefix_shadow.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"

namespace tandem::testing {
namespace {

constexpr std::size_t kSpaces = 2;

std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }

std::vector<TokenId> page_at(const std::vector<TokenId>& tokens, std::int64_t depth,
                             std::int64_t page) {
  return {tokens.begin() + depth, tokens.begin() + depth + page};
}

}  // namespace

std::ostream& operator<<(std::ostream& stream, const PrefixOperation& operation) {
  return stream << "{" << int{operation.kind} << ", " << operation.a << ", " << operation.b << "}";
}

PrefixShadow::PrefixShadow(PrefixCacheOptions options, std::int64_t budget_pages)
    : at_(std::move(options), budget_pages) {
  for (std::size_t i = 0; i < kSpaces; ++i) {
    names_.push_back(CacheNamespace{.adapter_version = i}.key());
    roots_.push_back(std::make_unique<ShadowNode>());
  }
}

Result<void> PrefixShadow::apply(const PrefixOperation& operation) {
  const auto [kind, a, b] = operation;
  if (kind == PrefixOperation::kStart) return start(a, b);
  if (kind == PrefixOperation::kEvict) return evict_one();
  if (kind == PrefixOperation::kWait) {
    at_.clock.advance(std::chrono::seconds(a % 1000));
    return {};
  }
  if (kind == PrefixOperation::kMakeRoom) {
    bool made = false;
    return make_room({.states = a % 4, .pages = b % 12}, made);
  }
  if (requests_.empty()) return {};
  if (kind == PrefixOperation::kDonate) return donate(a, b);
  if (kind == PrefixOperation::kFinish) return finish_request(a % requests_.size());
  Request& request = requests_[a % requests_.size()];
  request.lock.release_state();
  request.state = nullptr;
  return {};
}

// --- Requests -----------------------------------------------------------------------------------

// An old prompt up to some token, then tokens of an alphabet of two.
std::vector<TokenId> PrefixShadow::make_prompt(std::uint32_t a, std::uint32_t b) {
  const std::int64_t page = at_.cache->options().page_tokens;
  std::vector<TokenId> prompt;
  if (!prompts_.empty() && a % 8 != 0) {
    const std::vector<TokenId>& old = prompts_[a % prompts_.size()];
    prompt.assign(old.begin(), old.begin() + b % (old.size() + 1));
  }
  const std::int64_t more = 1 + a % (4 * page);
  for (std::int64_t i = 0; i < more; ++i) {
    prompt.push_back(static_cast<TokenId>(2 * philox_uniform(1, ++draws_)));
  }
  prompt.resize(std::min(prompt.size(), index(12 * page)));
  prompts_.push_back(prompt);
  if (prompts_.size() > 20) prompts_.erase(prompts_.begin());
  return prompt;
}

PrefixMatch PrefixShadow::match(int space, const std::vector<TokenId>& tokens,
                                std::int64_t limit) const {
  return at_.cache->match(names_[index(space)], tokens, limit);
}

// Returns the node that holds the last row matched.
Result<ShadowNode*> PrefixShadow::compare_match(int space, const std::vector<TokenId>& tokens,
                                                std::int64_t limit) const {
  const auto& options = at_.cache->options();
  ShadowNode* node = roots_[index(space)].get();
  std::int64_t usable = 0;
  bool was_evicted = false;
  while (node->depth + options.page_tokens <= limit) {
    const auto next = node->children.find(page_at(tokens, node->depth, options.page_tokens));
    if (next == node->children.end()) break;
    node = next->second.get();
    if (node->has_state) {
      usable = node->depth;
      was_evicted = false;
    }
    was_evicted = was_evicted || node->was_evicted;
  }
  std::int64_t text = node->depth;
  for (const auto& [page, child] : node->children) {
    std::int64_t at = node->depth;
    while (at < limit && at < child->depth && page[index(at - node->depth)] == tokens[index(at)]) {
      ++at;
    }
    text = std::max(text, at);
  }
  const MatchEnd end = text == limit            ? MatchEnd::kPromptEnds
                       : node->children.empty() ? MatchEnd::kCacheEnds
                                                : MatchEnd::kTextDiffers;
  const std::int64_t grid_point = node->depth / options.grid_tokens * options.grid_tokens;
  const std::int64_t branch = grid_point > usable ? grid_point : 0;
  const ReplayCause cause = usable == node->depth ? ReplayCause::kNone
                            : was_evicted         ? ReplayCause::kEvicted
                            : branch != 0         ? ReplayCause::kBranch
                                                  : ReplayCause::kGrid;
  const PrefixMatch real = match(space, tokens, limit);
  if (real.usable_tokens != usable || real.row_tokens != node->depth || real.text_tokens != text ||
      real.branch_tokens != branch || real.end != end || real.replay != cause) {
    return differs(
        "matched {} usable, {} rows, {} text, {} branch, end {}, cause {}; expected {}, "
        "{}, {}, {}, {}, {}",
        real.usable_tokens, real.row_tokens, real.text_tokens, real.branch_tokens, int(real.end),
        int(real.replay), usable, node->depth, text, branch, int(end), int(cause));
  }
  return node;
}

Result<void> PrefixShadow::start(std::uint32_t a, std::uint32_t b) {
  if (requests_.size() >= 6) return finish_request(b % requests_.size());
  Request request{.space = static_cast<int>(b % kSpaces), .prompt = make_prompt(a, b)};
  const auto limit = static_cast<std::int64_t>(request.prompt.size()) - 1;
  ShadowNode* rows = TRY(compare_match(request.space, request.prompt, limit));
  const std::uint64_t before = at_.cache->digest();
  const PrefixMatch found = match(request.space, request.prompt, limit);
  if (at_.cache->digest() != before) return differs("a match changed the cache");
  for (ShadowNode* up = rows; up != nullptr && request.state == nullptr; up = up->parent) {
    if (up->has_state) request.state = up;
  }
  const LockExtent extent = a % 3 == 0 ? LockExtent::kRows : LockExtent::kUsable;
  request.rows = extent == LockExtent::kRows ? rows
                 : request.state != nullptr  ? request.state
                                             : roots_[index(request.space)].get();
  request.lock = at_.cache->acquire(names_[index(request.space)], found, extent);
  at_.cache->count_use(found);
  if (ShadowNode* used = request.state; used != nullptr) {
    const double half_lives =
        milliseconds(used->used_at, at_.clock.now()) /
        std::chrono::duration<double, std::milli>(EvictionOrder::kFrequencyHalfLife).count();
    used->frequency = used->frequency * std::exp2(-half_lives) + 1;
    used->base = clock_;
    used->used_at = at_.clock.now();
  }
  requests_.push_back(std::move(request));
  return {};
}

Result<void> PrefixShadow::donate(std::uint32_t a, std::uint32_t b) {
  Request& request = requests_[a % requests_.size()];
  const auto& options = at_.cache->options();
  const auto size = static_cast<std::int64_t>(request.prompt.size());
  const std::int64_t end = std::min(size, request.rows->depth + b % (5 * options.page_tokens));
  const std::int64_t new_pages =
      end / options.page_tokens - request.rows->depth / options.page_tokens;
  const std::int64_t grid_points = end / options.grid_tokens;
  const std::int64_t states = grid_points == 0 ? 0 : b % 4;
  bool made = false;
  TRY(make_room({.states = states, .pages = new_pages}, made));
  if (!made) return {};

  std::vector<PageHandle> pages = at_.new_pages(new_pages);
  std::vector<PageId> ids;
  for (const PageHandle& page : pages) ids.push_back(page.id());
  std::vector<DonatedState> checkpoints;
  for (std::int64_t i = 0; i < states; ++i) {
    const std::int64_t depth = options.grid_tokens * (1 + (a + 5 * i) % grid_points);
    checkpoints.push_back({.state = at_.arena->allocate_work(RequestId{1}), .depth_tokens = depth});
  }
  const std::span<const TokenId> tokens(request.prompt.data(), index(end));
  Donation done = at_.cache->donate(std::move(request.lock), tokens, pages, checkpoints);
  request.lock = std::move(done.lock);

  std::int64_t shared = request.rows->depth;
  for (const PageId id : ids) {
    ShadowNode& parent = *request.rows;
    auto& child = parent.children[page_at(request.prompt, parent.depth, options.page_tokens)];
    if (child == nullptr) {
      child = std::make_unique<ShadowNode>();
      child->parent = &parent;
      child->depth = parent.depth + options.page_tokens;
      child->page = id;
    } else {
      shared = child->depth;
    }
    request.rows = child.get();
  }
  if (done.shared_tokens != shared)
    return differs("{} tokens shared, not {}", done.shared_tokens, shared);
  for (std::int64_t i = 0; i < states; ++i) {
    plant(*request.rows, options.grid_tokens * (1 + (a + 5 * i) % grid_points));
  }
  return {};
}

Result<void> PrefixShadow::finish_request(std::size_t at) {
  ShadowNode* rows = requests_[at].rows;
  requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(at));
  prune(rows);
  return {};
}

}  // namespace tandem::testing
