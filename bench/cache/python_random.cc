#include "cache/python_random.h"

#include <bit>

namespace tandem {
namespace {

// Fills a generator's state as MT19937's init_by_array does for a key of one word. Looks like a
// seed sequence to std::mt19937, which takes the words as they are.
struct OneWordKey {
  using result_type = std::uint32_t;

  template <typename It>
  void generate(It begin, It end) {
    const auto size = static_cast<std::uint32_t>(end - begin);
    const auto mixed = [&](std::uint32_t i, std::uint32_t factor) {
      const std::uint32_t before = begin[i - 1];
      return begin[i] ^ ((before ^ (before >> 30)) * factor);
    };
    begin[0] = 19'650'218;
    for (std::uint32_t i = 1; i < size; ++i) {
      const std::uint32_t before = begin[i - 1];
      begin[i] = 1'812'433'253 * (before ^ (before >> 30)) + i;
    }
    std::uint32_t i = 1;
    const auto step = [&] {
      if (++i < size) return;
      begin[0] = begin[size - 1];
      i = 1;
    };
    for (std::uint32_t count = size; count > 0; --count, step()) {
      begin[i] = mixed(i, 1'664'525) + key;
    }
    for (std::uint32_t count = size - 1; count > 0; --count, step()) {
      begin[i] = mixed(i, 1'566'083'941) - i;
    }
    begin[0] = 0x8000'0000;
  }

  std::uint32_t key;
};

std::mt19937 seeded(std::uint32_t seed) {
  OneWordKey key{seed};
  return std::mt19937(key);
}

}  // namespace

PythonRandom::PythonRandom(std::uint32_t seed) : words_(seeded(seed)) {}

double PythonRandom::random() {
  const auto high = static_cast<double>(words_() >> 5);
  const auto low = static_cast<double>(words_() >> 6);
  return (high * 67'108'864.0 + low) / 9'007'199'254'740'992.0;
}

std::int64_t PythonRandom::below(std::int64_t count) {
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count)));
  std::int64_t drawn = 0;
  do {
    drawn = static_cast<std::int64_t>(words_() >> (32 - bits));
  } while (drawn >= count);
  return drawn;
}

std::int64_t PythonRandom::randint(std::int64_t low, std::int64_t high) {
  return low + below(high - low + 1);
}

}  // namespace tandem
