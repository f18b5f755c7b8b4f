#include "engine/model_executor.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"

namespace tandem {

// How far one row of a plan has come. A row with snapshots on its way runs in several pieces.
struct ModelExecutor::Cursor {
  std::shared_ptr<Sequence> sequence;  // null: forgotten, nothing to sample
  std::int64_t done = 0;
  std::size_t next_snapshot = 0;  // in the plan's list
  Result<SampledToken> sample = SampledToken{};
};

namespace {

// Prompts that are scored are computed in pieces of so many tokens, whole chunks of the kernels.
constexpr std::int64_t kScoredTokens = 64;

// Tells the rows of a forward pass apart by request.
class WaveObserver final : public ForwardObserver {
 public:
  WaveObserver(StepObserver* observer, const StepPlan& plan, std::span<const SequenceInput> inputs,
               std::span<const std::size_t> rows)
      : observer_(observer), plan_(plan), inputs_(inputs), rows_(rows) {}

  void on_layer(std::int64_t, ConstActivations) override {}
  void on_experts(std::int64_t layer, std::span<const std::int32_t> ids) override {
    std::size_t tokens = 0;
    for (const SequenceInput& input : inputs_) tokens += input.tokens.size();
    const std::size_t top_k = ids.size() / tokens;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const std::size_t count = inputs_[i].tokens.size();
      observer_->on_experts(plan_.rows[rows_[i]].request, inputs_[i].start, layer,
                            static_cast<std::int64_t>(count), ids.first(count * top_k));
      ids = ids.subspan(count * top_k);
    }
  }

 private:
  StepObserver* observer_;
  const StepPlan& plan_;
  std::span<const SequenceInput> inputs_;
  std::span<const std::size_t> rows_;
};

}  // namespace

Result<std::unique_ptr<ModelExecutor>> ModelExecutor::create(const Model& model,
                                                             const ArenaGeometry& geometry,
                                                             const ModelExecutorOptions& options,
                                                             const Clock& clock) {
  auto buffer = HugeBuffer::allocate(static_cast<std::size_t>(geometry.buffer_bytes()));
  if (!buffer) {
    return fail(StatusCode::kResourceExhausted, "the machine does not give {} bytes for the cache",
                geometry.buffer_bytes());
  }
  return std::unique_ptr<ModelExecutor>(
      new ModelExecutor(model, *std::move(buffer), options, clock));
}

ModelExecutor::ModelExecutor(const Model& model, HugeBuffer buffer,
                             const ModelExecutorOptions& options, const Clock& clock)
    : model_(model),
      options_(options),
      clock_(clock),
      buffer_(std::move(buffer)),
      state_bytes_(model.memory().total.state_bytes),
      team_(options.threads) {
  if (options_.background) thread_ = std::thread([this] { work(); });
}

ModelExecutor::~ModelExecutor() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ModelExecutor::open(RequestId request, Sampler sampler, PromptScoring scoring) {
  auto sequence = std::make_shared<Sequence>(Sequence{std::move(sampler)});
  if (scoring.from > 0) {
    const auto from = static_cast<std::size_t>(scoring.from);
    sequence->scores = std::make_shared<PromptLogprobs>(scoring.tokens.size() - from);
    sequence->scoring = std::move(scoring);
  }
  std::lock_guard lock(mutex_);
  sequences_.emplace(request, std::move(sequence));
}

void ModelExecutor::forget(RequestId request) {
  std::lock_guard lock(mutex_);
  sequences_.erase(request);
}

void ModelExecutor::launch(const StepPlan& plan) {
  {
    std::lock_guard lock(mutex_);
    launched_.push_back(&plan);
  }
  changed_.notify_all();
}

StepResult ModelExecutor::wait() {
  std::unique_lock lock(mutex_);
  if (!options_.background) {
    CHECK(!launched_.empty(), "no step was launched");
    const StepPlan* plan = launched_.front();
    launched_.pop_front();
    lock.unlock();
    return run(*plan);
  }
  changed_.wait(lock, [this] { return !results_.empty(); });
  StepResult result = std::move(results_.front());
  results_.pop_front();
  return result;
}

void ModelExecutor::work() {
  while (true) {
    const StepPlan* plan = nullptr;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !launched_.empty(); });
      if (stopping_) return;
      plan = launched_.front();
      launched_.pop_front();
    }
    StepResult result = run(*plan);
    {
      std::lock_guard lock(mutex_);
      results_.push_back(std::move(result));
    }
    changed_.notify_all();
  }
}

// --- A step -------------------------------------------------------------------------------------

StepResult ModelExecutor::run(const StepPlan& plan) {
  const TimePoint begin = clock_.now();
  move_states(plan);
  std::vector<Cursor> cursors = find_sequences(plan);
  while (run_wave(plan, cursors)) {
  }
  StepResult result{.sequence = plan.sequence};
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    if (plan.rows[i].samples) result.samples.push_back(std::move(cursors[i].sample));
  }
  result.elapsed_ms = milliseconds(begin, clock_.now());
  return result;
}

void ModelExecutor::move_states(const StepPlan& plan) {
  std::byte* base = buffer_.data();
  for (const Move& move : plan.moves) {
    std::memcpy(base + move.dst_offset, base + move.src_offset,
                static_cast<std::size_t>(move.bytes));
  }
  const auto state_bytes = static_cast<std::size_t>(state_bytes_);
  for (const std::int64_t state : plan.clears) std::memset(base + state, 0, state_bytes);
  for (const StateCopy& restore : plan.restores) {
    std::memcpy(base + restore.dst_offset, base + restore.src_offset, state_bytes);
  }
}

std::vector<ModelExecutor::Cursor> ModelExecutor::find_sequences(const StepPlan& plan) {
  std::vector<Cursor> cursors(plan.rows.size());
  {
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < plan.rows.size(); ++i) {
      const auto found = sequences_.find(plan.rows[i].request);
      if (found != sequences_.end()) cursors[i].sequence = found->second;
    }
  }
  std::size_t snapshot = 0;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    cursors[i].next_snapshot = snapshot;
    while (snapshot < plan.snapshots.size() && plan.snapshots[snapshot].row == i) ++snapshot;
  }
  return cursors;
}

std::int64_t ModelExecutor::Sequence::logit_rows(std::int64_t begin, std::int64_t end,
                                                 bool samples) const {
  const std::int64_t least = samples ? 1 : 0;
  // Behind the last token but one there is the last one to score.
  const bool scores_any =
      scores != nullptr && begin < static_cast<std::int64_t>(scoring.tokens.size()) - 1;
  return scores_any ? std::max(least, end - std::max(begin, scoring.from - 1)) : least;
}

// Every row's tokens up to its next snapshot or its end. False if nothing was left.
bool ModelExecutor::run_wave(const StepPlan& plan, std::vector<Cursor>& cursors) {
  inputs_.clear();
  page_pointers_.clear();
  page_pointers_.reserve(plan.page_offsets.size());
  std::vector<std::size_t> rows;
  const auto next_snapshot = [&](std::size_t i) -> const Snapshot* {
    const std::size_t next = cursors[i].next_snapshot;
    return next < plan.snapshots.size() && plan.snapshots[next].row == i ? &plan.snapshots[next]
                                                                         : nullptr;
  };
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const StepRow& row = plan.rows[i];
    Cursor& cursor = cursors[i];
    const auto row_tokens = static_cast<std::int64_t>(row.tokens.count);
    if (cursor.done == row_tokens || (!cursor.sequence && row.follows_sample)) continue;
    const Snapshot* snapshot = next_snapshot(i);
    std::int64_t end = snapshot != nullptr ? snapshot->tokens : row_tokens;
    if (cursor.sequence && cursor.sequence->scores) {
      // A row of logits is as large as the vocabulary.
      const std::int64_t at = row.start + cursor.done;
      end = std::min(end, (at / kScoredTokens + 1) * kScoredTokens - row.start);
    }
    const bool samples = row.samples && cursor.sequence && end == row_tokens;
    const std::int64_t logit_rows =
        cursor.sequence
            ? cursor.sequence->logit_rows(row.start + cursor.done, row.start + end, samples)
            : 0;
    std::span<const TokenId> tokens = plan.tokens_of(row).subspan(
        static_cast<std::size_t>(cursor.done), static_cast<std::size_t>(end - cursor.done));
    if (row.follows_sample) tokens = std::span(&cursor.sequence->last_sample, 1);
    const std::size_t first_page = page_pointers_.size();
    for (const std::int64_t page : plan.pages_of(row)) {
      page_pointers_.push_back(buffer_.data() + page);
    }
    inputs_.push_back({.tokens = tokens,
                       .start = row.start + cursor.done,
                       .state = buffer_.data() + row.state_offset,
                       .pages = std::span(page_pointers_).subspan(first_page),
                       .logit_rows = logit_rows});
    rows.push_back(i);
  }
  if (rows.empty()) return false;

  WaveObserver observer(options_.observer, plan, inputs_, rows);
  const ForwardBatch batch{.sequences = inputs_,
                           .page_tokens = options_.page_tokens,
                           .observer = options_.observer != nullptr ? &observer : nullptr};
  Scratch::Frame frame(scratch_);
  Activations logits = scratch_.take(batch.logit_rows(), model_.spec().vocab_size);
  model_.forward(batch, scratch_, team_, logits);

  std::int64_t next_logits = 0;
  for (std::size_t at = 0; at < rows.size(); ++at) {
    Cursor& cursor = cursors[rows[at]];
    cursor.done += static_cast<std::int64_t>(inputs_[at].tokens.size());
    const Snapshot* snapshot = next_snapshot(rows[at]);
    if (snapshot != nullptr && snapshot->tokens == cursor.done) {
      std::memcpy(buffer_.data() + snapshot->dst_offset, inputs_[at].state,
                  static_cast<std::size_t>(state_bytes_));
      ++cursor.next_snapshot;
    }
    const StepRow& row = plan.rows[rows[at]];
    const bool at_end = cursor.done == static_cast<std::int64_t>(row.tokens.count);
    for (std::int64_t left = inputs_[at].logit_rows; left > 0; --left) {
      const std::span<float> one = {logits.row(next_logits++),
                                    static_cast<std::size_t>(logits.columns)};
      if (cursor.sequence->scores) score(*cursor.sequence, row.start + cursor.done - left, one);
      if (left == 1 && row.samples && at_end) sample(row, cursor, one);
    }
  }
  return true;
}

// The logits behind the token at `position`.
void ModelExecutor::score(Sequence& sequence, std::int64_t position,
                          std::span<const float> logits) {
  const std::int64_t scored = position + 1;
  const std::int64_t index = scored - sequence.scoring.from;
  if (index < 0 || scored >= static_cast<std::int64_t>(sequence.scoring.tokens.size())) return;
  (*sequence.scores)[static_cast<std::size_t>(index)] =
      sequence.sampler.score(logits, sequence.scoring.tokens[static_cast<std::size_t>(scored)]);
}

void ModelExecutor::sample(const StepRow& row, Cursor& cursor, std::span<float> logits) {
  if (options_.observer != nullptr) {
    options_.observer->on_logits(row.request, row.start + cursor.done, logits);
  }
  cursor.sample = cursor.sequence->sampler.next(logits);
  if (cursor.sample) cursor.sample->prompt = std::exchange(cursor.sequence->scores, nullptr);
  // The id of some token in any case: steps launched already will ask for it.
  cursor.sequence->last_sample = cursor.sample ? cursor.sample->id : 0;
}

}  // namespace tandem
