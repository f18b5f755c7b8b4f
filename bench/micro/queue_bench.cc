// What the waiting queue costs the planner: a list of four candidates, an admission and what comes
// with it, with 10,000 requests waiting. Prints a table.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

#include "base/philox.h"
#include "schedule/request_queue.h"

namespace tandem {
namespace {

constexpr std::uint64_t kWaiting = 10'000;
constexpr int kRounds = 2'000;

class Samples {
 public:
  template <typename F>
  void add(F&& call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    const auto end = std::chrono::steady_clock::now();
    values_.push_back(std::chrono::duration<double, std::micro>(end - start).count());
  }
  void print(std::string_view call, std::uint64_t tenants) {
    std::sort(values_.begin(), values_.end());
    const auto at = [&](double q) {
      return values_[static_cast<std::size_t>(q * static_cast<double>(values_.size() - 1))];
    };
    fmt::print("| {} | {} | {:.2f} | {:.2f} |\n", call, tenants, at(0.5), at(0.99));
  }

 private:
  std::vector<double> values_;
};

// Prompts of 1 ms to 10 s to compute, a hundredth with a deadline, arriving a millisecond apart.
QueuedRequest request(std::uint64_t number, std::uint64_t tenants) {
  const auto draw = [number](std::uint64_t key) { return philox_uniform(key, number); };
  QueuedRequest made = {
      .id = RequestId{number},
      .tenant = TenantId{static_cast<std::uint64_t>(draw(1) * static_cast<double>(tenants))},
      .arrival = TimePoint{} + std::chrono::milliseconds(number),
      .work = {.hit_ms = 1000 * draw(2), .remaining_ms = std::pow(10, 4 * draw(3))}};
  if (draw(4) < 0.01) made.deadline = made.arrival + std::chrono::seconds(5);
  return made;
}

void run(std::uint64_t tenants) {
  RequestQueue queue({.max_queued = 2 * kWaiting});
  std::uint64_t last = 0;
  while (queue.size() < kWaiting) queue.push(request(++last, tenants));
  Samples list, push, admit, update, charge, position;
  for (int round = 0; round < kRounds; ++round) {
    const TimePoint now = TimePoint{} + std::chrono::milliseconds(last);
    std::vector<Candidate> next;
    list.add([&] { next = queue.candidates(now, 4); });
    const TenantId tenant = queue.find(next.front().id)->tenant;
    admit.add([&] { queue.admit(next.front().id); });
    charge.add([&] { queue.charge(tenant, 50); });
    ++last;
    push.add([&] { queue.push(request(last, tenants)); });
    update.add([&] { queue.update_work(RequestId{last}, {100, 100}); });
    if (round % 20 == 0) position.add([&] { queue.position(RequestId{last}, now); });
  }
  list.print("candidates(now, 4)", tenants);
  admit.print("admit", tenants);
  push.print("push", tenants);
  update.print("update_work", tenants);
  charge.print("charge", tenants);
  position.print("position", tenants);
}

}  // namespace
}  // namespace tandem

int main() {
  fmt::print("{} requests wait\n\n| call | tenants | p50 us | p99 us |\n|---|---|---|---|\n",
             tandem::kWaiting);
  for (const std::uint64_t tenants : {1, 64, 1000}) tandem::run(tenants);
  return 0;
}
