// Encoding speed: `tokenizer_bench FOLDER VOCAB_SIZE TEXT_FILE` prints MB a second of CPU time.
#include <fmt/core.h>

#include <cstdlib>
#include <ctime>

#include "text/file.h"
#include "text/tokenizer.h"

namespace {

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: {} FOLDER VOCAB_SIZE TEXT_FILE\n", argv[0]);
    return 2;
  }
  const double before_load = cpu_seconds();
  const auto tokenizer = tandem::Tokenizer::load(argv[1], std::atoll(argv[2]));
  const auto text = tandem::read_text_file(argv[3]);
  if (!tokenizer || !text) {
    fmt::print(stderr, "{}\n", !tokenizer ? tokenizer.error().message : text.error().message);
    return 2;
  }
  const double start = cpu_seconds();
  double end = start;
  std::size_t tokens = 0, passes = 0;
  for (; end - start < 1.0; end = cpu_seconds(), ++passes) {
    tokens += (*tokenizer)->encode_plain(*text).size();
  }
  const double bytes = static_cast<double>(text->size() * passes);
  fmt::print("load {:.0f} ms, encode {:.1f} MB/s, {:.2f} bytes per token\n",
             (start - before_load) * 1e3, bytes / 1e6 / (end - start),
             bytes / static_cast<double>(tokens));
  return 0;
}
