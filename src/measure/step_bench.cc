#include "measure/step_bench.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "measure/resident_memory.h"

namespace tandem::measure {
namespace {

constexpr std::int64_t kComputedContext = 256;
// Sequences of the token source: those of a batch, then the shared context.
constexpr std::int64_t kContextSequence = std::int64_t{1} << 30;

// Numbers as a normed row has them.
std::vector<float> random_row_elements() {
  std::mt19937_64 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(std::size_t{1} << 16);
  for (float& value : values) value = normal(engine);
  return values;
}

void fill_rows(SequenceMemory& memory, std::int64_t pages, std::int64_t page_bytes, DType dtype) {
  const std::vector<float> values = random_row_elements();
  std::size_t next = 0;
  for (std::int64_t p = 0; p < pages; ++p) {
    std::byte* page = memory.pages()[static_cast<std::size_t>(p)];
    const auto elements = static_cast<std::size_t>(page_bytes) /
                          (dtype == DType::kF32 ? sizeof(float) : sizeof(BF16));
    for (std::size_t i = 0; i < elements; ++i) {
      const float value = values[next++ % values.size()];
      if (dtype == DType::kF32) {
        reinterpret_cast<float*>(page)[i] = value;
      } else {
        reinterpret_cast<BF16*>(page)[i] = to_bf16(value);
      }
    }
  }
}

}  // namespace

// Counts the experts that the tokens of a step go to.
class StepBench::ExpertCounter final : public ForwardObserver {
 public:
  explicit ExpertCounter(const ModelSpec& spec) : spec_(spec) {}

  void on_layer(std::int64_t, ConstActivations) override {}
  void on_experts(std::int64_t layer, std::span<const std::int32_t> ids) override {
    const auto& moe = std::get<MoeSpec>(spec_.layers[static_cast<std::size_t>(layer)].ffn);
    seen_.assign(static_cast<std::size_t>(moe.experts), false);
    for (const std::int32_t id : ids) seen_[static_cast<std::size_t>(id)] = true;
    distinct_ += static_cast<double>(std::count(seen_.begin(), seen_.end(), true));
    even_ += expected_distinct_experts(moe.experts, moe.top_k,
                                       static_cast<std::int64_t>(ids.size()) / moe.top_k);
    ++layers_;
  }
  // Means of a layer since the last call.
  struct Means {
    double distinct = 0;
    double even = 0;
  };
  Means take_means() {
    const double layers = std::max(1.0, static_cast<double>(layers_));
    const Means means{distinct_ / layers, even_ / layers};
    distinct_ = even_ = 0;
    layers_ = 0;
    return means;
  }

 private:
  const ModelSpec& spec_;
  std::vector<bool> seen_;
  double distinct_ = 0;
  double even_ = 0;
  std::int64_t layers_ = 0;
};

Summary StepCase::wall_s() const {
  std::vector<double> walls;
  for (const StepTimes& sample : samples) walls.push_back(sample.wall_s);
  return summarise(std::move(walls));
}

StepTimes StepCase::typical() const {
  std::vector<StepTimes> sorted = samples;
  std::sort(sorted.begin(), sorted.end(),
            [](const StepTimes& a, const StepTimes& b) { return a.wall_s < b.wall_s; });
  const std::size_t outside = (sorted.size() - 1) / 4;  // on each side
  StepTimes mean;
  const auto count = static_cast<double>(sorted.size() - 2 * outside);
  for (std::size_t i = outside; i < sorted.size() - outside; ++i) {
    mean.wall_s += sorted[i].wall_s / count;
    for (std::size_t s = 0; s < kStageCount; ++s) mean.stage_s[s] += sorted[i].stage_s[s] / count;
  }
  return mean;
}

std::int64_t request_bytes(const StateLayout& layout, std::int64_t sequences, std::int64_t tokens) {
  const std::int64_t pages = (tokens + kBenchPageTokens - 1) / kBenchPageTokens;
  return sequences * (layout.state_bytes + pages * kBenchPageTokens * layout.row_bytes);
}

void StepBench::step(std::vector<SequenceMemory>& memory, std::int64_t start,
                     const std::vector<std::vector<TokenId>>& tokens, std::int64_t logit_rows,
                     ExpertCounter* experts) {
  std::vector<SequenceInput> inputs;
  for (std::size_t s = 0; s < tokens.size(); ++s) {
    inputs.push_back({.tokens = tokens[s],
                      .start = start,
                      .state = memory[s].state(),
                      .pages = memory[s].pages(),
                      .logit_rows = logit_rows});
  }
  const auto rows = static_cast<std::int64_t>(inputs.size()) * logit_rows;
  const std::int64_t columns = model_.spec().vocab_size;
  logits_.resize(static_cast<std::size_t>(rows * columns));
  clock_.begin_step();
  model_.forward({.sequences = inputs,
                  .page_tokens = kBenchPageTokens,
                  .observer = experts,
                  .stages = &clock_},
                 scratch_, team_, {logits_.data(), rows, columns, columns});
  clock_.end_step();
}

std::vector<SequenceMemory> StepBench::make_context(std::int64_t sequences, std::int64_t context,
                                                    std::int64_t room) {
  const StateLayout& layout = model_.memory().total;
  std::vector<SequenceMemory> memory;
  for (std::int64_t s = 0; s < sequences; ++s) {
    memory.emplace_back(layout, kBenchPageTokens);
    memory.back().reserve_tokens(context + room);
  }
  const std::int64_t computed = std::min(context, kComputedContext);
  const auto pages = static_cast<std::int64_t>(memory.front().pages().size());
  const std::int64_t page_bytes = kBenchPageTokens * layout.row_bytes;
  fill_rows(memory.front(), pages, page_bytes, model_.memory().cache_dtype);

  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < computed; ++i) ids.push_back(tokens_.at(kContextSequence, i));
  step(memory, context - computed, {ids}, 0, nullptr);

  for (std::size_t s = 1; s < memory.size(); ++s) {
    std::memcpy(memory[s].state(), memory[0].state(), static_cast<std::size_t>(layout.state_bytes));
    for (std::size_t p = 0; p < memory[s].pages().size(); ++p) {
      std::memcpy(memory[s].pages()[p], memory[0].pages()[p], static_cast<std::size_t>(page_bytes));
    }
  }
  return memory;
}

StepCase StepBench::decode(const DecodeOptions& options) {
  StepCase result;
  result.sequences = options.batch;
  result.context = options.context;
  result.sample_tokens = options.batch;
  const std::int64_t steps = options.warm_up + options.steps;
  std::vector<SequenceMemory> memory = make_context(options.batch, options.context, steps);
  ExpertCounter experts(model_.spec());
  for (std::int64_t i = 0; i < steps; ++i) {
    if (i == options.warm_up) {
      clock_.take();
      experts.take_means();
    }
    const std::int64_t position = options.context + i;
    std::vector<std::vector<TokenId>> tokens;
    for (std::int64_t s = 0; s < options.batch; ++s) tokens.push_back({tokens_.at(s, position)});
    step(memory, position, tokens, 1, &experts);
    if (i >= options.warm_up) result.samples.push_back(clock_.take());
  }
  const ExpertCounter::Means means = experts.take_means();
  result.distinct_experts = means.distinct;
  result.even_experts = means.even;
  result.work = step_work(model_.spec(), model_.weights(), model_.memory(),
                          {.sequences = options.batch,
                           .rows_each = 1,
                           .context = options.context + options.warm_up + (options.steps - 1) / 2,
                           .logit_rows = options.batch,
                           .distinct_experts = result.distinct_experts});
  result.resident_bytes = resident_memory_bytes();
  result.cache_bytes = request_bytes(model_.memory().total, options.batch, options.context + steps);
  return result;
}

StepCase StepBench::prefill(const PrefillOptions& options) {
  StepCase result;
  result.prompt = options.prompt;
  result.sample_tokens = options.prompt;
  ExpertCounter experts(model_.spec());
  const std::int64_t chunks = (options.prompt + options.chunk - 1) / options.chunk;
  for (std::int64_t i = 0; i < options.warm_up + options.repetitions; ++i) {
    std::vector<SequenceMemory> memory;
    memory.emplace_back(model_.memory().total, kBenchPageTokens);
    memory.back().reserve_tokens(options.prompt);
    clock_.take();
    StepWork work{};
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const std::int64_t start = chunk * options.chunk;
      std::vector<TokenId> ids;
      for (std::int64_t t = start; t < std::min(start + options.chunk, options.prompt); ++t) {
        ids.push_back(tokens_.at(i, t));
      }
      const std::int64_t logit_rows = chunk == chunks - 1 ? 1 : 0;
      step(memory, start, {ids}, logit_rows, &experts);
      const ExpertCounter::Means means = experts.take_means();
      const StepWork of_chunk = step_work(model_.spec(), model_.weights(), model_.memory(),
                                          {.sequences = 1,
                                           .rows_each = static_cast<std::int64_t>(ids.size()),
                                           .context = start,
                                           .logit_rows = logit_rows,
                                           .distinct_experts = means.distinct});
      for (std::size_t s = 0; s < kStageCount; ++s) work[s] += of_chunk[s];
      if (i < options.warm_up) continue;
      const auto steps = static_cast<double>(chunks * options.repetitions);
      result.distinct_experts += means.distinct / steps;
      result.even_experts += means.even / steps;
    }
    if (i < options.warm_up) continue;
    result.samples.push_back(clock_.take());
    for (std::size_t s = 0; s < kStageCount; ++s) {
      work[s] /= static_cast<double>(options.repetitions);
      result.work[s] += work[s];
    }
    result.resident_bytes = std::max(result.resident_bytes, resident_memory_bytes());
  }
  result.cache_bytes = request_bytes(model_.memory().total, 1, options.prompt);
  return result;
}

}  // namespace tandem::measure
