// Tandem's model on one checkpoint, timed as llama_cpp.mjs times llama.cpp: the same jobs as lines
// of JSON on stdin, the same tokens, answers as lines on stdout.
//
//   model_jobs CHECKPOINT
//
// llama_cpp.mjs describes the jobs; there is one more here:
//
//   {"kind": "gap", "threads", "ids", "next"}   by how much the logit of the token `next` after
//   `ids`
//                                               is below the best, in standard deviations of all
//
// A step is one call of Model::forward, in the default precision;
// the tokens are given, and nothing is sampled.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/model.h"
#include "model/sequence_memory.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kPageTokens = 16;    // the server's default
constexpr std::int64_t kChunkTokens = 512;  // the server's default
constexpr std::int64_t kWarmUpSteps = 4;
constexpr std::int64_t kKeptContextTokens = 4096;  // from here on a context is computed only once

class Jobs {
 public:
  explicit Jobs(const Model& model) : model_(model) {}

  // Throws nlohmann's exceptions for a field that is missing or of another type.
  Json run(const Json& job) {
    const std::string kind = job.at("kind");
    ThreadTeam team(job.at("threads").get<int>());
    team_ = &team;
    if (kind == "prefill") return prefill(job.at("prompt"));
    if (kind == "decode") return decode(job.at("batch"), job.at("context"), job.at("steps"));
    if (kind == "greedy") return greedy(job.at("ids"), job.at("tokens"));
    if (kind == "gap") return gap(job.at("ids"), job.at("next"));
    return {{"error", "no such kind: " + kind}};
  }

 private:
  struct Part {
    SequenceMemory* memory;
    std::int64_t start;
    std::span<const TokenId> tokens;
  };

  // Spread over the vocabulary and different in every sequence, as in llama_cpp.mjs.
  TokenId token_at(std::int64_t position, std::int64_t sequence) const {
    return static_cast<TokenId>((position * 7919 + sequence * 104729 + 13) %
                                model_.spec().vocab_size);
  }

  std::vector<TokenId> tokens(std::int64_t length, std::int64_t sequence) const {
    std::vector<TokenId> ids(static_cast<std::size_t>(length));
    for (std::int64_t i = 0; i < length; ++i) {
      ids[static_cast<std::size_t>(i)] = token_at(i, sequence);
    }
    return ids;
  }

  // One step; the last token of each part gives logits. Returns its seconds.
  double step(std::span<const Part> parts) {
    std::vector<SequenceInput> inputs;
    for (const Part& part : parts) {
      inputs.push_back({.tokens = part.tokens,
                        .start = part.start,
                        .state = part.memory->state(),
                        .pages = part.memory->pages(),
                        .logit_rows = 1});
    }
    const auto rows = static_cast<std::int64_t>(parts.size());
    const std::int64_t columns = model_.spec().vocab_size;
    logits_.resize(static_cast<std::size_t>(rows * columns));
    const auto begin = std::chrono::steady_clock::now();
    model_.forward({.sequences = inputs, .page_tokens = kPageTokens}, scratch_, *team_,
                   {logits_.data(), rows, columns, columns});
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  double fill(SequenceMemory& memory, std::span<const TokenId> ids) {
    double seconds = 0;
    for (std::size_t at = 0; at < ids.size(); at += kChunkTokens) {
      const std::size_t length = std::min<std::size_t>(kChunkTokens, ids.size() - at);
      const Part part{&memory, static_cast<std::int64_t>(at), ids.subspan(at, length)};
      seconds += step({&part, 1});
    }
    return seconds;
  }

  SequenceMemory memory_for(std::int64_t length) const {
    SequenceMemory memory(model_.memory().total, kPageTokens);
    memory.reserve_tokens(length);
    return memory;
  }

  Json prefill(std::int64_t prompt) {
    SequenceMemory memory = memory_for(prompt);
    return {{"seconds", fill(memory, tokens(prompt, 0))}};
  }

  // A sequence with `length` tokens behind it and room for `steps` more. A long one stays here: its
  // state is put back, its rows behind `length` are overwritten by the next job.
  SequenceMemory& context(std::int64_t sequence, std::int64_t length, std::int64_t steps,
                          std::vector<SequenceMemory>& owned) {
    const auto state_bytes = static_cast<std::size_t>(model_.memory().total.state_bytes);
    if (length < kKeptContextTokens) {
      owned.push_back(memory_for(length + steps));
      fill(owned.back(), tokens(length, sequence));
      return owned.back();
    }
    const auto [at, is_new] = kept_.try_emplace({sequence, length}, memory_for(length + steps));
    Kept& kept = at->second;
    if (is_new) {
      ThreadTeam all(default_thread_count());
      ThreadTeam* const of_the_job = std::exchange(team_, &all);
      fill(kept.memory, tokens(length, sequence));
      team_ = of_the_job;
      kept.state.assign(kept.memory.state(), kept.memory.state() + state_bytes);
    }
    kept.memory.reserve_tokens(length + steps);
    std::memcpy(kept.memory.state(), kept.state.data(), state_bytes);
    return kept.memory;
  }

  Json decode(std::int64_t batch, std::int64_t length, std::int64_t steps) {
    std::vector<SequenceMemory> owned;
    owned.reserve(static_cast<std::size_t>(batch));
    std::vector<Part> parts;
    std::vector<TokenId> next(static_cast<std::size_t>(batch));
    for (std::int64_t sequence = 0; sequence < batch; ++sequence) {
      SequenceMemory& memory = context(sequence, length, kWarmUpSteps + steps, owned);
      parts.push_back({&memory, length, {&next[static_cast<std::size_t>(sequence)], 1}});
    }
    double seconds = 0;
    for (std::int64_t i = 0; i < kWarmUpSteps + steps; ++i) {
      for (std::int64_t sequence = 0; sequence < batch; ++sequence) {
        next[static_cast<std::size_t>(sequence)] = token_at(length + i, sequence);
        parts[static_cast<std::size_t>(sequence)].start = length + i;
      }
      const double step_seconds = step(parts);
      if (i >= kWarmUpSteps) seconds += step_seconds;
    }
    return {{"seconds", seconds}};
  }

  Json greedy(const std::vector<TokenId>& ids, std::int64_t count) {
    SequenceMemory memory = memory_for(static_cast<std::int64_t>(ids.size()) + count);
    fill(memory, ids);
    std::vector<TokenId> answer;
    for (;;) {
      const auto best = std::max_element(logits_.begin(), logits_.end()) - logits_.begin();
      answer.push_back(static_cast<TokenId>(best));
      if (std::ssize(answer) == count) return {{"ids", answer}};
      const Part part{&memory, std::ssize(ids) + std::ssize(answer) - 1, {&answer.back(), 1}};
      step({&part, 1});
    }
  }

  Json gap(const std::vector<TokenId>& ids, TokenId next) {
    SequenceMemory memory = memory_for(std::ssize(ids));
    fill(memory, ids);
    const auto count = static_cast<double>(logits_.size());
    const double mean = std::reduce(logits_.begin(), logits_.end(), 0.0) / count;
    const double squares =
        std::transform_reduce(logits_.begin(), logits_.end(), 0.0, std::plus<>(),
                              [mean](double x) { return (x - mean) * (x - mean); });
    const double best = *std::max_element(logits_.begin(), logits_.end());
    const double chosen = logits_[static_cast<std::size_t>(next)];
    return {{"gap", (best - chosen) / std::sqrt(squares / count)}};
  }

  struct Kept {
    explicit Kept(SequenceMemory empty) : memory(std::move(empty)) {}
    SequenceMemory memory;
    std::vector<std::byte> state;  // after the context's last token
  };

  const Model& model_;
  ThreadTeam* team_ = nullptr;  // of the job that runs
  Scratch scratch_;
  std::vector<float> logits_;
  std::map<std::pair<std::int64_t, std::int64_t>, Kept> kept_;  // by sequence and length
};

int serve_jobs(const std::string& folder) {
  const auto model = Model::load(folder, Precision::kDefault, cpu_kernels());
  if (!model) {
    std::cerr << "model_jobs: " << model.error().message << '\n';
    return exit_code(model.error().code);
  }
  Jobs jobs(**model);
  std::cout << Json{{"release", "this build"}} << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << jobs.run(Json::parse(line)) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) { return tandem::serve_jobs(argc > 1 ? argv[1] : "models/demo"); }
