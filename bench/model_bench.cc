// Load time, prefill and decode rates of a checkpoint on this machine, as a table.
//
//   model_bench [FOLDER] [exact|default]
//
// One run a row after one warm-up; the best of three is printed, since a shared machine only ever
// adds time.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "model/model.h"
#include "model/sequence_memory.h"

namespace tandem {
namespace {

constexpr std::int64_t kPageTokens = 64;
constexpr std::int64_t kChunk = 256;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Rates {
  double prefill = 0;  // tokens/s
  double decode = 0;
};

class Run {
 public:
  Run(const Model& model, ThreadTeam& team)
      : model_(model), team_(team), logits_(static_cast<std::size_t>(model.spec().vocab_size)) {}

  Rates measure(std::int64_t prompt, std::int64_t answer) {
    SequenceMemory memory(model_.memory().total, kPageTokens);
    memory.reserve_tokens(prompt + answer);
    std::vector<TokenId> ids;
    for (std::int64_t i = 0; i < prompt; ++i) {
      ids.push_back(static_cast<TokenId>((i * 7919 + 13) % model_.spec().vocab_size));
    }
    auto start = std::chrono::steady_clock::now();
    for (std::int64_t done = 0; done < prompt; done += kChunk) {
      const std::int64_t length = std::min(kChunk, prompt - done);
      step(memory,
           std::span(ids).subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(length)),
           done, done + length == prompt ? 1 : 0);
    }
    const double prefill_s = seconds_since(start);
    start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < answer; ++i) {
      const auto next =
          static_cast<TokenId>(std::max_element(logits_.begin(), logits_.end()) - logits_.begin());
      step(memory, {&next, 1}, prompt + i, 1);
    }
    return {static_cast<double>(prompt) / prefill_s,
            static_cast<double>(answer) / seconds_since(start)};
  }

 private:
  void step(SequenceMemory& memory, std::span<const TokenId> ids, std::int64_t start,
            std::int64_t logit_rows) {
    const SequenceInput input{.tokens = ids,
                              .start = start,
                              .state = memory.state(),
                              .pages = memory.pages(),
                              .logit_rows = logit_rows};
    const auto columns = static_cast<std::int64_t>(logits_.size());
    model_.forward({.sequences = {&input, 1}, .page_tokens = kPageTokens}, scratch_, team_,
                   {logits_.data(), logit_rows, columns, columns});
  }

  const Model& model_;
  ThreadTeam& team_;
  Scratch scratch_;
  std::vector<float> logits_;
};

// "RssAnon" of this process in MiB: memory beyond mapped files.
double anonymous_mib() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("RssAnon:")) return std::stod(line.substr(8)) / 1024;
  }
  return 0;
}

int bench(const std::string& folder, Precision precision) {
  const auto start = std::chrono::steady_clock::now();
  auto model = Model::load(folder, precision, cpu_kernels());
  if (!model) {
    fmt::print(stderr, "model_bench: {}\n", model.error().message);
    return exit_code(model.error().code);
  }
  fmt::print("{}  {}  load {:.3f} s\n", folder,
             precision == Precision::kExact ? "exact" : "default", seconds_since(start));
  fmt::print("{:>8} {:>14} {:>14} {:>14}\n", "threads", "prefill 512", "prefill 2048", "decode");
  for (int threads : {1, 2}) {
    ThreadTeam team(threads);
    Run run(**model, team);
    run.measure(64, 8);
    Rates best_short, best_long;
    for (int i = 0; i < 3; ++i) {
      const Rates s = run.measure(512, 128);
      const Rates l = run.measure(2048, 1);
      best_short = {std::max(best_short.prefill, s.prefill), std::max(best_short.decode, s.decode)};
      best_long.prefill = std::max(best_long.prefill, l.prefill);
    }
    fmt::print("{:>8} {:>10.0f} t/s {:>10.0f} t/s {:>10.0f} t/s\n", threads, best_short.prefill,
               best_long.prefill, best_short.decode);
  }
  const MemoryLayout& layout = (*model)->memory();
  fmt::print("state {:.2f} MiB a request, {} bytes a token; anonymous memory {:.1f} MiB\n",
             static_cast<double>(layout.total.state_bytes) / 0x1p20, layout.total.row_bytes,
             anonymous_mib());
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "models/demo";
  const bool exact = argc > 2 && std::string(argv[2]) == "exact";
  return tandem::bench(folder, exact ? tandem::Precision::kExact : tandem::Precision::kDefault);
}
