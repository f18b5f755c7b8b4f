// One step of the model as plain data: what to move, what to compute, what to keep.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "memory/arena.h"

namespace tandem {

// A whole state, from one place of the arena's buffer to another.
struct StateCopy {
  std::int64_t src_offset = 0;
  std::int64_t dst_offset = 0;

  bool operator==(const StateCopy&) const = default;
};

// The state of a row after its first `tokens` tokens, to be kept at `dst_offset`.
struct Snapshot {
  std::size_t row = 0;
  std::int64_t tokens = 0;  // 1 to the row's
  std::int64_t dst_offset = 0;

  bool operator==(const Snapshot&) const = default;
};

// Part [first, first + count) of one of the plan's lists.
struct PlanSpan {
  std::size_t first = 0;
  std::size_t count = 0;

  bool operator==(const PlanSpan&) const = default;
};

// One request's next tokens.
struct StepRow {
  RequestId request;
  std::int64_t start = 0;  // position of the first token
  PlanSpan tokens;         // in StepPlan::tokens
  // The one token is the last that was sampled for this request, which the planner may not know
  // yet; StepPlan::tokens holds -1 in its place.
  bool follows_sample = false;
  bool samples = false;  // a token is sampled behind the last
  std::int64_t state_offset = 0;
  PlanSpan pages;  // in StepPlan::page_offsets: of rows [0, start + tokens)

  bool operator==(const StepRow&) const = default;
};

// Everything happens in the order of the members, and steps in the order of `sequence`: one stream.
// Offsets are bytes from the start of the arena's buffer.
struct StepPlan {
  std::uint64_t sequence = 0;
  std::vector<Move> moves;
  std::vector<std::int64_t> clears;  // states to fill with zeros
  std::vector<StateCopy> restores;
  std::vector<StepRow> rows;        // advance their state in place
  std::vector<Snapshot> snapshots;  // taken on the way; ascending by row, then tokens

  std::vector<TokenId> tokens;
  std::vector<std::int64_t> page_offsets;

  bool operator==(const StepPlan&) const = default;

  bool empty() const { return rows.empty(); }
  std::span<const TokenId> tokens_of(const StepRow& row) const {
    return std::span(tokens).subspan(row.tokens.first, row.tokens.count);
  }
  std::span<const std::int64_t> pages_of(const StepRow& row) const {
    return std::span(page_offsets).subspan(row.pages.first, row.pages.count);
  }
  // Forgets all but the room that its lists have.
  void clear() {
    sequence = 0;
    moves.clear();
    clears.clear();
    restores.clear();
    rows.clear();
    snapshots.clear();
    tokens.clear();
    page_offsets.clear();
  }
};

}  // namespace tandem
