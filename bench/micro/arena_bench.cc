// What the arena costs: host time of an allocation and a free, and bytes moved for bytes freed
// while the load flips between many short and few long requests. Prints the tables of
// bench/results/arena.md.
//
//   arena_bench [TICKS]     length of the flipping load, 14,000 by default

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <queue>
#include <random>
#include <string_view>

#include "memory/arena.h"

namespace tandem {
namespace {

// Kimi K3 on one of eight ranks: 69 layers of 12 heads, and latent rows of 24 layers.
constexpr std::int64_t kStateBytes = 56'171'520;
constexpr std::int64_t kRowBytes = 27'648;
constexpr std::int64_t kChunkRows = 2048;
constexpr std::int64_t kBudgetBytes = std::int64_t{57} << 30;

using Clock = std::chrono::steady_clock;
using Random = std::mt19937_64;

std::unique_ptr<Arena> make_arena(std::int64_t page_rows) {
  auto arena = Arena::create({.budget_bytes = kBudgetBytes,
                              .state_bytes = kStateBytes,
                              .page_bytes = page_rows * kRowBytes});
  CHECK(arena.has_value(), "{}", arena.error().message);
  return *std::move(arena);
}

// --- Time of a call -----------------------------------------------------------------------------

// Nanoseconds of calls, less what reading the clock takes.
class Samples {
 public:
  explicit Samples(double clock_ns) : clock_ns_(clock_ns) {}

  template <typename F>
  void add(F&& call) {
    const auto start = Clock::now();
    call();
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    values_.push_back(std::max(0.0, ns - clock_ns_));
  }
  double quantile(double q) {
    const auto at = static_cast<std::ptrdiff_t>(q * static_cast<double>(values_.size() - 1));
    std::nth_element(values_.begin(), values_.begin() + at, values_.end());
    return values_[static_cast<std::size_t>(at)];
  }
  void print(std::string_view name) {
    const double p50 = quantile(0.5);
    fmt::print("| {} | {} | {:.0f} | {:.0f} |\n", name, values_.size(), p50, quantile(0.99));
  }

 private:
  double clock_ns_;
  std::vector<double> values_;
};

double clock_ns() {
  Samples empty(0);
  for (int i = 0; i < 100'000; ++i) empty.add([] {});
  return empty.quantile(0.5);
}

// A full arena in which requests come and go, each with a state and a run of pages: frees and
// allocations of single entries, of a request's pages and, as the worst case, of pages at random.
class Calls {
 public:
  explicit Calls(std::int64_t page_rows) : arena_(make_arena(page_rows)), page_rows_(page_rows) {
    for (std::uint64_t i = 0; i < kRequests; ++i) {
      states_.push_back(arena_->allocate_work(RequestId{i}));
    }
    const std::int64_t count = arena_->headroom(EntryKind::kPage);
    runs_.resize(static_cast<std::size_t>(count / kRun));
    for (auto& run : runs_) CHECK(arena_->allocate_pages(run), "a run does not fit");
    // Scatter half of the runs over the holes of the others.
    for (int i = 0; i < 20; ++i) {
      std::shuffle(runs_.begin(), runs_.end(), random_);
      const std::span some(runs_.data(), runs_.size() / 2);
      for (auto& run : some) run = {};
      for (auto& run : some) CHECK(arena_->allocate_pages(run), "a run does not fit");
    }
  }

  void print() {
    const double overhead = clock_ns();
    Samples free_page(overhead);
    Samples take_page(overhead);
    Samples free_state(overhead);
    Samples take_state(overhead);
    Samples free_run(overhead);
    Samples take_run(overhead);
    for (int i = 0; i < kRounds; ++i) {
      auto& run = runs_[random_() % runs_.size()];
      for (PageHandle& page : run) free_page.add([&] { page.reset(); });
      for (PageHandle& page : run) take_page.add([&] { page = arena_->allocate_page(); });
      auto& other_run = runs_[random_() % runs_.size()];
      free_run.add([&] { other_run = {}; });
      take_run.add([&] { CHECK(arena_->allocate_pages(other_run), "a run does not fit"); });
    }
    for (int i = 0; i < 10 * kRounds; ++i) {
      StateHandle& state = states_[random_() % states_.size()];
      free_state.add([&] { state.reset(); });
      take_state.add([&] { state = arena_->allocate_work(RequestId{1}); });
    }
    Samples free_any(overhead);
    for (int i = 0; i < 100 * kRounds; ++i) {
      PageHandle& page = runs_[random_() % runs_.size()][random_() % kRun];
      CHECK(static_cast<bool>(page), "a page is missing");  // its owner has the handle at hand
      free_any.add([&] { page.reset(); });
      page = arena_->allocate_page();
    }
    fmt::print("\n{} pages of {} rows and {} states; {:.0f} ns of reading the clock subtracted\n\n",
               runs_.size() * kRun, page_rows_, states_.size(), overhead);
    fmt::print("| call | samples | p50 ns | p99 ns |\n|---|---|---|---|\n");
    take_page.print("allocate a page");
    free_page.print("free a page, one after the other of a request");
    free_any.print("free a page at random");
    take_state.print("allocate a state");
    free_state.print("free a state");
    take_run.print("allocate 128 pages");
    free_run.print("free 128 pages");
  }

 private:
  static constexpr std::size_t kRun = 128;
  static constexpr std::uint64_t kRequests = 270;
  static constexpr int kRounds = 2000;

  std::unique_ptr<Arena> arena_;
  std::int64_t page_rows_;
  Random random_{1};
  std::vector<StateHandle> states_;
  std::vector<std::array<PageHandle, kRun>> runs_;
};

// --- Bytes moved --------------------------------------------------------------------------------

// What one request holds until `end`.
struct Tenant {
  std::int64_t end = 0;
  StateHandle state;
  std::vector<PageHandle> pages;
};
struct Later {
  bool operator()(const Tenant& a, const Tenant& b) const { return a.end > b.end; }
};

// Two requests a tick, up to 93 % of the bytes. Every 6,000 ticks the load flips between short
// requests and long ones; every second request leaves a checkpoint that outlives it.
class FlippingLoad {
 public:
  FlippingLoad(std::int64_t page_rows, std::uint64_t seed)
      : arena_(make_arena(page_rows)), page_rows_(page_rows), random_(seed) {}

  void run(std::int64_t ticks) {
    for (std::int64_t tick = 0; tick < ticks; ++tick) {
      while (!tenants_.empty() && tenants_.front().end <= tick) leave();
      for (int i = 0; i < 2; ++i) arrive(tick);
      arena_->take_moves(moves_);
    }
    const ArenaCounters& counters = arena_->counters();
    const auto moved = static_cast<double>(counters.moved_bytes);
    const auto freed = static_cast<double>(counters.freed_bytes);
    fmt::print("| {} | {:.0f} | {:.1f} | {:.4f} | {:.1f} | {} | {} |\n", page_rows_, freed / 1e9,
               moved / 1e9, moved / freed, static_cast<double>(counters.largest_burst_bytes) / 1e6,
               admitted_, failures_);
  }

 private:
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  void leave() {
    std::pop_heap(tenants_.begin(), tenants_.end(), Later());
    tenants_.pop_back();
  }
  void stay(Tenant tenant) {
    tenants_.push_back(std::move(tenant));
    std::push_heap(tenants_.begin(), tenants_.end(), Later());
  }
  bool is_full() const {
    const ArenaUsage usage = arena_->usage();
    return static_cast<double>(usage.state_bytes + usage.page_bytes) >
           0.93 * static_cast<double>(kBudgetBytes);
  }

  // Admission by the joint test alone: a failure after it would be counted.
  void arrive(std::int64_t tick) {
    if (is_full()) return;
    const bool is_short = tick / 6000 % 2 == 0;
    const std::int64_t rows = is_short ? between(1280, 5120) : between(51'200, 192'000);
    const std::int64_t life = is_short ? between(50, 200) : between(300, 900);
    Tenant tenant{.end = tick + life, .state = {}, .pages = {}};
    const std::int64_t pages = (rows + page_rows_ - 1) / page_rows_;
    if (!arena_->can_allocate({.states = 1, .pages = pages})) return;
    ++admitted_;
    tenant.state = arena_->allocate_work(RequestId{static_cast<std::uint64_t>(admitted_)});
    failures_ += tenant.state ? 0 : 1;
    tenant.pages.resize(static_cast<std::size_t>(pages));
    // A prefill chunk at a time, as a step would.
    const auto chunk = static_cast<std::size_t>(kChunkRows / page_rows_);
    for (std::size_t first = 0; first < tenant.pages.size(); first += chunk) {
      const std::size_t count = std::min(chunk, tenant.pages.size() - first);
      failures_ += arena_->allocate_pages(std::span(tenant.pages).subspan(first, count)) ? 0 : 1;
    }
    stay(std::move(tenant));
    if (between(0, 1) == 0 || is_full() || !arena_->can_allocate({.states = 1})) return;
    Tenant checkpoint{.end = tick + between(1000, 6000), .state = {}, .pages = {}};
    checkpoint.state = arena_->allocate_ping(RequestId{1}, 0);
    failures_ += checkpoint.state ? 0 : 1;
    stay(std::move(checkpoint));
  }

  std::unique_ptr<Arena> arena_;
  std::int64_t page_rows_;
  Random random_;
  std::vector<Tenant> tenants_;  // a heap, the next to leave in front
  std::vector<Move> moves_;
  std::int64_t admitted_ = 0;
  std::int64_t failures_ = 0;
};

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  const std::int64_t ticks = argc > 1 ? std::atoll(argv[1]) : 14'000;
  tandem::Calls(64).print();
  tandem::Calls(16).print();
  fmt::print("\n{} ticks of the flipping load, 3 seeds\n\n", ticks);
  fmt::print(
      "| rows a page | freed GB | moved GB | moved / freed | largest call MB | admitted | "
      "failed |\n|---|---|---|---|---|---|---|\n");
  for (std::int64_t page_rows : {64, 16}) {
    for (std::uint64_t seed : {1u, 2u, 3u}) tandem::FlippingLoad(page_rows, seed).run(ticks);
  }
  return 0;
}
