// How operators fan out over a thread team.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "tensor/aligned_buffer.h"
#include "tensor/thread_team.h"

namespace tandem::cpu {

// Handing a range to another thread costs a few microseconds; a range of less work than this is not
// worth it.
inline constexpr double kMinTaskNs = 10'000;

// Iterations that make a task of kMinTaskNs.
inline std::int64_t grain_for(double ns_per_iteration) {
  return static_cast<std::int64_t>(kMinTaskNs / std::max(ns_per_iteration, 0.1)) + 1;
}

// Rough costs on one core, to choose grains by: they steer threads, never results.
inline constexpr double kNsPerFlop = 1.0 / 40;
inline constexpr double kNsPerByte = 1.0 / 12;
inline constexpr double kNsPerElement = 0.3;         // simple arithmetic on fp32 rows
inline constexpr double kNsPerTranscendental = 1.0;  // exp, tanh, ...

// body(begin, end) over [0, count). The body is passed by reference: a std::function that captures
// more than two words would allocate at every call.
template <class Body>
void parallel(ThreadTeam& team, std::int64_t count, std::int64_t grain, const Body& body) {
  if (count <= 0) return;
  if (count <= grain || team.threads() == 1) return body(std::int64_t{0}, count);
  team.parallel_for(count, grain, std::cref(body));
}

// Outputs cut into blocks of one size but the last: `unit` outputs, or as many times that as are
// worth a task.
struct OutputBlocks {
  OutputBlocks() = default;
  OutputBlocks(std::int64_t outputs_, std::int64_t unit, double output_ns)
      : outputs(outputs_),
        size(std::min(outputs_, (grain_for(output_ns) + unit - 1) / unit * unit)) {}

  std::int64_t count() const { return (outputs + size - 1) / size; }
  std::int64_t first(std::int64_t block) const { return block * size; }
  std::int64_t last(std::int64_t block) const { return std::min(outputs, first(block) + size); }

  std::int64_t outputs = 0;
  std::int64_t size = 1;
};

// One thread's scratch memory: grows to the largest request and stays. Contents are not kept.
class Scratch {
 public:
  float* floats(std::int64_t count) { return grown(floats_, count); }
  std::int32_t* ints(std::int64_t count) { return grown(ints_, count); }

 private:
  template <class T>
  static T* grown(AlignedBuffer<T>& buffer, std::int64_t count) {
    const auto size = static_cast<std::size_t>(count);
    if (buffer.size() < size) buffer = AlignedBuffer<T>(size);
    return buffer.data();
  }

  AlignedBuffer<float> floats_;
  AlignedBuffer<std::int32_t> ints_;
};

}  // namespace tandem::cpu
