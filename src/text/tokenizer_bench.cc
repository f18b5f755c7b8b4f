// Encoding speed: `tokenizer_bench FOLDER VOCAB_SIZE TEXT_FILE` prints MB/s on one core.
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>

#include "text/file.h"
#include "text/tokenizer.h"

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  if (argc != 4) {
    fmt::print(stderr, "usage: {} FOLDER VOCAB_SIZE TEXT_FILE\n", argv[0]);
    return 2;
  }
  const auto before_load = Clock::now();
  const auto tokenizer = tandem::Tokenizer::load(argv[1], std::atoll(argv[2]));
  const auto text = tandem::read_text_file(argv[3]);
  if (!tokenizer || !text) {
    fmt::print(stderr, "{}\n", !tokenizer ? tokenizer.error().message : text.error().message);
    return 2;
  }
  const std::chrono::duration<double> load = Clock::now() - before_load;
  std::size_t tokens = 0, passes = 0;
  const auto start = Clock::now();
  std::chrono::duration<double> spent{0};
  for (; spent.count() < 1.0; spent = Clock::now() - start, ++passes) {
    tokens += (*tokenizer)->encode_plain(*text).size();
  }
  const double bytes = static_cast<double>(text->size() * passes);
  fmt::print("load {:.0f} ms, encode {:.1f} MB/s, {:.2f} bytes per token\n", load.count() * 1e3,
             bytes / 1e6 / spent.count(), bytes / static_cast<double>(tokens));
  return 0;
}
