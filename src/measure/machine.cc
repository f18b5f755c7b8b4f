#include "measure/machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <new>
#include <vector>

#include "kernels/cpu/targets.h"
#include "tensor/aligned_buffer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "measure/machine.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tandem::measure::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;

// The sum of `count` floats, a multiple of 4,096: several loads in flight, nothing else to do.
float read_floats(const float* data, std::size_t count) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (std::size_t i = 0; i < count; i += 4 * lanes) {
    a = hn::Add(a, hn::Load(d, data + i));
    b = hn::Add(b, hn::Load(d, data + i + lanes));
    c = hn::Add(c, hn::Load(d, data + i + 2 * lanes));
    e = hn::Add(e, hn::Load(d, data + i + 3 * lanes));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

// Twelve chains keep two multiply-add units of latency 4 or 5 busy. They start from different
// values, or the compiler would find them equal and run one. Returns the FLOP done; `sink` keeps it
// from leaving them out.
double multiply_add(std::size_t rounds, float& sink) {
  const Floats d;
  const auto x = hn::Set(d, 0.999f), y = hn::Set(d, 1e-3f);
  const auto start = [d](float value) HWY_ATTR { return hn::Iota(d, value); };
  auto a = start(1), b = start(2), c = start(3), e = start(4), f = start(5), g = start(6);
  auto h = start(7), i = start(8), j = start(9), k = start(10), l = start(11), m = start(12);
  for (std::size_t round = 0; round < rounds; ++round) {
    a = hn::MulAdd(a, x, y);
    b = hn::MulAdd(b, x, y);
    c = hn::MulAdd(c, x, y);
    e = hn::MulAdd(e, x, y);
    f = hn::MulAdd(f, x, y);
    g = hn::MulAdd(g, x, y);
    h = hn::MulAdd(h, x, y);
    i = hn::MulAdd(i, x, y);
    j = hn::MulAdd(j, x, y);
    k = hn::MulAdd(k, x, y);
    l = hn::MulAdd(l, x, y);
    m = hn::MulAdd(m, x, y);
  }
  const auto sum = hn::Add(
      hn::Add(hn::Add(a, b), hn::Add(c, e)),
      hn::Add(hn::Add(hn::Add(f, g), hn::Add(h, i)), hn::Add(hn::Add(j, k), hn::Add(l, m))));
  sink = hn::GetLane(hn::SumOfLanes(d, sum));
  return 12.0 * 2 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace tandem::measure::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::measure {
namespace {

HWY_EXPORT(read_floats);
HWY_EXPORT(multiply_add);
HWY_EXPORT(target_name);

constexpr int kRepetitions = 7;
constexpr std::size_t kBlockFloats = std::size_t{1} << 20;  // one task's share, 4 MiB

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::size_t buffer_blocks() {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  const std::int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const std::int64_t free_bytes =
      static_cast<std::int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  const std::int64_t wanted = std::clamp(2 * cache, 256 * kMiB, 1024 * kMiB);
  const std::int64_t bytes = std::min(wanted, std::max(free_bytes / 4, 16 * kMiB));
  return static_cast<std::size_t>(bytes) / (kBlockFloats * sizeof(float));
}

// Best effort: the memory's rate shows when address translation does not hold it up.
void ask_for_huge_pages(void* data, std::size_t bytes) {
  std::size_t space = bytes;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (std::align(page, page, data, space) != nullptr) {
    madvise(data, space / page * page, MADV_HUGEPAGE);
  }
}

}  // namespace

Result<void> MachineProbe::measure_reading() {
  const std::size_t blocks = buffer_blocks();
  AlignedBuffer<float> buffer;
  try {
    buffer = AlignedBuffer<float>(blocks * kBlockFloats);
  } catch (const std::bad_alloc&) {
    return fail(StatusCode::kResourceExhausted,
                "the machine does not give {} bytes to measure its memory with",
                blocks * kBlockFloats * sizeof(float));
  }
  const std::size_t bytes = buffer.size() * sizeof(float);
  ask_for_huge_pages(buffer.data(), bytes);
  std::atomic<float> sink = 0;
  const auto pass = [&](bool write) {
    team_.parallel_for(
        static_cast<std::int64_t>(blocks), 1, [&](std::int64_t begin, std::int64_t end) {
          float* data = buffer.data() + static_cast<std::size_t>(begin) * kBlockFloats;
          const std::size_t count = static_cast<std::size_t>(end - begin) * kBlockFloats;
          if (write) return void(std::fill_n(data, count, 1.0f));
          sink.store(HWY_DYNAMIC_DISPATCH(read_floats)(data, count), std::memory_order_relaxed);
        });
  };
  pass(/*write=*/true);
  for (int i = 0; i < kRepetitions; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    pass(/*write=*/false);
    read_bytes_per_s_.push_back(static_cast<double>(bytes) / seconds_since(begin));
  }
  return {};
}

void MachineProbe::measure_multiply_add() {
  constexpr std::size_t kRounds = 200'000;  // about half a millisecond
  const std::int64_t tasks = 32 * team_.threads();
  std::atomic<float> sink = 0;
  for (int i = 0; i < kRepetitions; ++i) {
    std::atomic<double> flop = 0;
    const auto begin = std::chrono::steady_clock::now();
    team_.parallel_for(tasks, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t task = first; task < last; ++task) {
        float value = 0;
        flop.fetch_add(HWY_DYNAMIC_DISPATCH(multiply_add)(kRounds, value));
        sink.store(value, std::memory_order_relaxed);
      }
    });
    fma_flop_per_s_.push_back(flop.load() / seconds_since(begin));
  }
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::string instruction_set_name() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

Result<void> MachineProbe::measure() {
  TRY(measure_reading());
  measure_multiply_add();
  return {};
}

MachineRates MachineProbe::rates() const {
  return {summarise(read_bytes_per_s_), summarise(fma_flop_per_s_)};
}

}  // namespace tandem::measure
#endif  // HWY_ONCE
