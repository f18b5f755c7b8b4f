#include "schedule/fake_executor.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tandem {
namespace {

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  a = (a ^ b) * 0x9E37'79B9'7F4A'7C15;
  return a ^ (a >> 29);
}

std::uint64_t after(std::uint64_t hash, TokenId token) {
  return mix(hash + 1, static_cast<std::uint64_t>(token));
}

TokenId sample(std::uint64_t state, std::uint64_t rows) {
  return static_cast<TokenId>(mix(state, rows) % FakeExecutor::kVocab);
}

}  // namespace

FakeExecutor::FakeExecutor(const ArenaGeometry& geometry, std::int64_t page_tokens)
    : page_tokens_(page_tokens),
      buffer_(static_cast<std::size_t>(geometry.buffer_bytes()), std::byte{0xA5}) {
  CHECK(geometry.state_bytes >= kStateBytes && geometry.page_bytes >= kRowBytes * page_tokens,
        "the arena's entries are too small for this executor");
}

std::vector<TokenId> FakeExecutor::answer(std::span<const TokenId> prompt, std::int64_t tokens) {
  std::vector<TokenId> all(prompt.begin(), prompt.end());
  std::uint64_t state = 0, rows = 0;
  std::size_t at = 0;
  for (std::int64_t i = 0; i < tokens; ++i) {
    for (; at < all.size(); ++at) {
      state = after(state, all[at]);
      rows ^= mix(state, at);
    }
    all.push_back(sample(state, rows));
  }
  return {all.begin() + static_cast<std::ptrdiff_t>(prompt.size()), all.end()};
}

FakeExecutor::State FakeExecutor::load_state(std::int64_t offset) const {
  State state;
  std::memcpy(&state, buffer_.data() + offset, sizeof(state));
  return state;
}

void FakeExecutor::store_state(std::int64_t offset, State state) {
  std::memcpy(buffer_.data() + offset, &state, sizeof(state));
}

std::uint64_t& FakeExecutor::row_at(const StepPlan& plan, const StepRow& row,
                                    std::int64_t position) {
  const std::int64_t page = plan.pages_of(row)[static_cast<std::size_t>(position / page_tokens_)];
  return *reinterpret_cast<std::uint64_t*>(buffer_.data() + page +
                                           position % page_tokens_ * kRowBytes);
}

StepResult FakeExecutor::wait() {
  CHECK(!launched_.empty(), "no step was launched");
  const StepPlan& plan = *launched_.front();
  launched_.pop_front();
  if (sabotage_) sabotage_(plan);
  const auto copy = [this](std::int64_t src, std::int64_t dst, std::int64_t bytes) {
    std::memcpy(buffer_.data() + dst, buffer_.data() + src, static_cast<std::size_t>(bytes));
  };
  for (const Move& move : plan.moves) copy(move.src_offset, move.dst_offset, move.bytes);
  for (const std::int64_t state : plan.clears) store_state(state, {});
  for (const StateCopy& restore : plan.restores) {
    copy(restore.src_offset, restore.dst_offset, kStateBytes);
  }
  StepResult result{.sequence = plan.sequence};
  if (duration_ms_) result.elapsed_ms = duration_ms_(plan);
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const TokenId token = run_row(plan, i);
    if (!plan.rows[i].samples) continue;
    last_sample_[plan.rows[i].request] = token;
    result.samples.push_back(SampledToken{.id = token});
  }
  return result;
}

TokenId FakeExecutor::run_row(const StepPlan& plan, std::size_t index) {
  const StepRow& row = plan.rows[index];
  State state = load_state(row.state_offset);
  if (state.tokens != row.start) ++faults_;
  if (row.start > 0 && row_at(plan, row, row.start - 1) != state.hash) ++faults_;
  auto snapshot = std::find_if(plan.snapshots.begin(), plan.snapshots.end(),
                               [&](const Snapshot& s) { return s.row == index; });
  std::int64_t done = 0;
  for (TokenId token : plan.tokens_of(row)) {
    if (row.follows_sample) {
      const auto last = last_sample_.find(row.request);
      if (last == last_sample_.end()) return 0;  // forgotten
      token = last->second;
    }
    state.hash = after(state.hash, token);
    row_at(plan, row, state.tokens) = state.hash;
    ++state.tokens;
    ++done;
    for (; snapshot != plan.snapshots.end() && snapshot->row == index && snapshot->tokens == done;
         ++snapshot) {
      store_state(snapshot->dst_offset, state);
    }
  }
  store_state(row.state_offset, state);
  std::uint64_t rows = 0;
  for (std::int64_t at = 0; at < state.tokens; ++at) {
    rows ^= mix(row_at(plan, row, at), static_cast<std::uint64_t>(at));
  }
  return sample(state.hash, rows);
}

}  // namespace tandem
