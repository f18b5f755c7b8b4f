// Decode and prefill steps of a model, timed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "measure/stage_clock.h"
#include "measure/step_work.h"
#include "measure/summary.h"
#include "measure/token_source.h"
#include "model/model.h"
#include "model/sequence_memory.h"
#include "tensor/thread_team.h"

namespace tandem::measure {

// One batch size and context, or one prompt.
struct StepCase {
  std::int64_t sequences = 1;
  std::int64_t context = 0;        // tokens that each sequence starts with
  std::int64_t prompt = 0;         // tokens of a sample's prompt; 0 in decode
  std::int64_t sample_tokens = 0;  // of all sequences
  std::vector<StepTimes> samples;
  StepWork work{};                  // of one sample, the mean
  double distinct_experts = 0;      // of a layer that routes, in a step: the mean
  double even_experts = 0;          // as many if all experts were as likely
  std::int64_t resident_bytes = 0;  // of the process, with the requests still in memory
  std::int64_t cache_bytes = 0;     // of the requests, as `tandem plan` counts them

  Summary wall_s() const;
  // The mean over the middle half of the samples by wall time: what does not belong to the step,
  // such as another process, stays out, and the stages still add up.
  StepTimes typical() const;
};

struct DecodeOptions {
  std::int64_t batch = 1;
  std::int64_t context = 256;  // >= 1
  std::int64_t steps = 32;     // >= 1, measured; each one token for every sequence
  std::int64_t warm_up = 4;    // steps before those
};

struct PrefillOptions {
  std::int64_t prompt = 512;     // >= 1
  std::int64_t chunk = 512;      // >= 1, tokens of a step
  std::int64_t repetitions = 5;  // >= 1
  std::int64_t warm_up = 1;      // repetitions before those
};

// Rows of a page, the server's default.
inline constexpr std::int64_t kBenchPageTokens = 16;

// Bytes that `sequences` requests of `tokens` each hold.
std::int64_t request_bytes(const StateLayout& layout, std::int64_t sequences, std::int64_t tokens);

// Single-threaded outside of its thread team. Everything handed over outlives it.
class StepBench {
 public:
  StepBench(const Model& model, ThreadTeam& team, const TokenSource& tokens, const Clock& clock)
      : model_(model), team_(team), tokens_(tokens), clock_(clock) {}

  // One token for each of a batch of sequences, step after step. Of a context only the last 256
  // tokens are computed, and those once: they are copied to all sequences. Rows before them hold
  // random numbers, which take as long to read.
  StepCase decode(const DecodeOptions& options);

  // A prompt in chunks, with logits behind the last token; once a repetition, in fresh memory.
  StepCase prefill(const PrefillOptions& options);

 private:
  class ExpertCounter;

  std::vector<SequenceMemory> make_context(std::int64_t sequences, std::int64_t context,
                                           std::int64_t room);
  // Runs `tokens` of each sequence from position `start` on.
  void step(std::vector<SequenceMemory>& memory, std::int64_t start,
            const std::vector<std::vector<TokenId>>& tokens, std::int64_t logit_rows,
            ExpertCounter* experts);

  const Model& model_;
  ThreadTeam& team_;
  const TokenSource& tokens_;
  StageClock clock_;
  Scratch scratch_;
  std::vector<float> logits_;
};

}  // namespace tandem::measure
