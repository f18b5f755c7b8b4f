// What the prefix cache costs in host time: a match, a donation and an eviction for prompts of
// 100,000 tokens, with a state at the end of each of 20 turns or at the end of the prompt only.
// Prints a table.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>

#include "memory/prefix_cache.h"

namespace tandem {
namespace {

// Kimi K3 on one of eight ranks.
constexpr std::int64_t kStateBytes = 56'171'520;
constexpr std::int64_t kRowBytes = 27'648;
constexpr std::int64_t kBudgetBytes = std::int64_t{24} << 30;

constexpr std::int64_t kPromptTokens = 102'400;  // a multiple of turns and of pages
constexpr std::int64_t kTurnTokens = 5'120;
constexpr std::int64_t kSessions = 4;
constexpr int kRounds = 50;

double cost_ms(std::int64_t tokens) {
  const auto n = static_cast<double>(tokens);
  return 0.2 * n + n * n / 600'000.0;
}

class Samples {
 public:
  template <typename F>
  void add(F&& call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    const auto end = std::chrono::steady_clock::now();
    values_.push_back(std::chrono::duration<double, std::micro>(end - start).count());
  }
  void print(std::string_view name, std::int64_t states, std::int64_t page_tokens) {
    std::sort(values_.begin(), values_.end());
    const auto at = [&](double q) {
      return values_[static_cast<std::size_t>(q * static_cast<double>(values_.size() - 1))];
    };
    fmt::print("| {} | {} | {} | {:.2f} | {:.2f} | {:.2f} |\n", name, states, page_tokens, at(0),
               at(0.5), at(0.99));
  }

 private:
  std::vector<double> values_;
};

// Sessions that share their first turn and differ from then on.
std::vector<TokenId> prompt_of(std::int64_t session) {
  std::vector<TokenId> tokens;
  for (std::int64_t i = 0; i < kPromptTokens; ++i) {
    const std::int64_t salt = i < kTurnTokens ? 0 : session + 1;
    tokens.push_back(static_cast<TokenId>((i * 7919 + salt * 104'729) % 160'000));
  }
  return tokens;
}

class Bench {
 public:
  Bench(std::int64_t page_tokens, std::int64_t states)
      : page_tokens_(page_tokens), states_(states) {
    auto arena = Arena::create({.budget_bytes = kBudgetBytes,
                                .state_bytes = kStateBytes,
                                .page_bytes = page_tokens * kRowBytes});
    CHECK(arena.has_value(), "{}", arena.error().message);
    arena_ = *std::move(arena);
    auto cache = PrefixCache::create(
        *arena_, clock_, {.page_tokens = page_tokens, .grid_tokens = 64, .prefill_cost = cost_ms});
    CHECK(cache.has_value(), "{}", cache.error().message);
    cache_ = *std::move(cache);
    for (std::int64_t i = 0; i < kSessions; ++i) prompts_.push_back(prompt_of(i));
  }

  void run() {
    for (int round = 0; round < kRounds; ++round) {
      for (const auto& prompt : prompts_) donate(prompt);
      for (const auto& prompt : prompts_) {
        match_.add([&] { last_ = cache_->match(name_, prompt, kPromptTokens - 1); });
        CHECK(last_.row_tokens == kPromptTokens - page_tokens_, "a match of {} tokens",
              last_.row_tokens);
      }
      while (cache_->usage().states > 0) {
        const std::int64_t pages = cache_->usage().pages;
        const auto start = std::chrono::steady_clock::now();
        CHECK(cache_->evict_one(), "{} states cannot be evicted", cache_->usage().states);
        evict_us_ +=
            std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
                .count();
        evicted_ += 1 + pages - cache_->usage().pages;
      }
    }
    match_.print("match", states_, page_tokens_);
    donate_.print("donate, all new", states_, page_tokens_);
    fmt::print("| evict, mean for each entry freed | {} | {} | | {:.3f} | |\n", states_,
               page_tokens_, evict_us_ / static_cast<double>(evicted_));
  }

 private:
  // All that the cache lacks of the prompt at once, with states evenly spaced up to its end.
  void donate(const std::vector<TokenId>& prompt) {
    const PrefixMatch match = cache_->match(name_, prompt, kPromptTokens);
    PrefixLock lock = cache_->acquire(name_, match);
    std::vector<PageHandle> pages(
        static_cast<std::size_t>((kPromptTokens - lock.tokens()) / page_tokens_));
    CHECK(arena_->allocate_pages(pages), "no room for {} pages", pages.size());
    std::vector<DonatedState> states;
    const std::int64_t spacing = kPromptTokens / states_;
    for (std::int64_t depth = lock.tokens() + spacing; depth <= kPromptTokens; depth += spacing) {
      states.push_back({.state = arena_->allocate_work(RequestId{}), .depth_tokens = depth});
    }
    Donation done;
    donate_.add([&] { done = cache_->donate(std::move(lock), prompt, pages, states); });
  }

  std::int64_t page_tokens_;
  std::int64_t states_;  // of a prompt
  SystemClock clock_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<PrefixCache> cache_;
  NamespaceKey name_ = CacheNamespace{}.key();
  std::vector<std::vector<TokenId>> prompts_;
  PrefixMatch last_;
  Samples match_;
  Samples donate_;
  double evict_us_ = 0;
  std::int64_t evicted_ = 0;
};

}  // namespace
}  // namespace tandem

int main() {
  fmt::print(
      "| call, prompt of {} tokens | states | page | least us | p50 us | p99 us |\n"
      "|---|---|---|---|---|---|\n",
      tandem::kPromptTokens);
  for (const std::int64_t page_tokens : {1, 16, 64}) {
    for (const std::int64_t states : {1, 20}) tandem::Bench(page_tokens, states).run();
  }
}
