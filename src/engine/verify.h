// The self-test behind `tandem verify`: caching, chunking and batching change no answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "model/model.h"

namespace tandem {

struct VerifyOptions {
  std::int64_t answer_tokens = 8;
  std::vector<std::int64_t> chunks = {64, 512, 0};  // prompt tokens in one step; 0: whole prompts
  std::int64_t page_tokens = 16;
  int threads = 0;  // 0: one a hardware thread
  std::uint64_t seed = 0;
  // Called now and then with the share of the work done.
  std::function<void(double share)> progress = {};
  // Called between the runs that fill the cache and those that read it; for tests of this test.
  std::function<void(EngineInternals)> sabotage = {};
};

enum class CacheState : std::uint8_t {
  kCold,     // nothing is cached
  kWarm,     // the same prompt was answered before
  kEvicted,  // likewise, and the states nearest to its end were evicted
};

// One way of running all prompts.
struct VerifyCell {
  CacheState cache = CacheState::kCold;
  std::int64_t chunk = 0;
  bool crowd = false;  // all prompts at once, or one after the other

  std::int64_t prompts = 0;
  std::int64_t cached_tokens = 0;  // of all prompts
  std::int64_t bit_equal = 0;      // prompts whose tokens and logits all are those of the reference
  std::int64_t other_tokens = 0;   // prompts that were answered with other tokens
  double ms = 0;
};

// Where an answer first departed from the reference.
struct VerifyDifference {
  std::size_t cell = 0;
  std::int64_t prompt = 0;
  std::int64_t position = 0;       // of the token, from the start of the prompt
  double gap = 0;                  // reference's best logit less its second, in standard deviations
  std::int64_t expert_layer = -1;  // the first layer that chose other experts before it; -1: none
};

struct VerifyReport {
  Precision precision = Precision::kExact;
  std::vector<VerifyCell> cells;
  std::vector<VerifyDifference> differences;
  std::string failure;  // why it failed, one line; empty: passed
  bool passed() const { return failure.empty(); }
};

// Prompts of random ids, 1 to `longest` tokens, the lengths spread evenly over their logarithm.
std::vector<std::vector<TokenId>> random_prompts(const ModelSpec& spec, std::int64_t count,
                                                 std::int64_t longest, std::uint64_t seed);

// Answers every prompt greedily in all cells and compares with answers computed one at a time
// without a cache. In Precision::kExact every cell must be bit-equal. By default it fails if an
// answer departs where the reference's top-2 gap is above 0.25 standard deviations of its logits
// although no layer chose other experts, or if more than 2 % of the answers of a cell depart. It
// also fails if a cell that should have read the cache did not. kInvalidArgument where none could,
// for want of a prompt that is long enough.
Result<VerifyReport> verify(std::shared_ptr<const Model> model,
                            const std::vector<std::vector<TokenId>>& prompts,
                            const VerifyOptions& options, const Clock& clock);

// A table for a terminal, with what it concludes.
std::string to_text(const VerifyReport& report);

}  // namespace tandem
