// A synthetic trace of agents that talk, fork and go back, and what a cache earned on it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace tandem {

// A stretch of text that follows its parent's: a system prompt, a message or an answer. No two
// segments have a token in common.
struct Segment {
  int parent = -1;  // -1: begins a prompt
  std::int64_t start_tokens = 0;
  std::int64_t end_tokens = 0;

  std::int64_t tokens() const { return end_tokens - start_tokens; }
};

// One request: the prompt is the path to `message`, which no earlier turn has.
struct Turn {
  int message = 0;
  int answer = 0;  // follows the message
};

struct AgentWorkload {
  std::vector<Segment> segments;
  std::vector<Turn> turns;

  int add_segment(int parent, std::int64_t tokens);
  const Segment& at(int segment) const { return segments[static_cast<std::size_t>(segment)]; }
  std::int64_t distinct_tokens() const;
  // Segments from the beginning of a prompt to `last`, which is included.
  std::vector<int> path(int last) const;
  // Text of the path to `last`.
  std::vector<TokenId> text(int last) const;
};

// 48 live sessions over 8 system prompts of 9,000 to 20,000 tokens; a session is drawn at random
// for each turn. Messages: 80 % of 150 to 3,500 tokens, else of 4,000 to 12,000; answers of 80 to
// 900. 6 % of the turns go back to an earlier turn of the session first, and 18 % leave 2 to 4
// sub-agents behind, which begin at the answer. A session ends after 8 to 40 turns (sub-agents: 2
// to 6) or at 180,000 tokens. Token for token the trace of the Python study of the same seed.
AgentWorkload make_agent_workload(std::uint32_t seed, std::size_t turns);

// Time to compute the first `tokens` tokens of a prompt, in units of the first token's.
double prefill_time(double tokens);

// What a policy earned in the turns after the warm-up.
struct Earnings {
  double prompt_tokens = 0;
  double row_tokens = 0;  // of which rows were cached
  double hit_tokens = 0;  // of which it had rows and a state
  double time = 0;        // of prefill
  double cold_time = 0;   // the same, had nothing been cached

  void add(std::int64_t prompt, std::int64_t rows, std::int64_t hit);
  double hit_rate() const { return hit_tokens / prompt_tokens; }
  double lost_to_state() const { return row_tokens == 0 ? 0 : 1 - hit_tokens / row_tokens; }
  double time_share() const { return time / cold_time; }
};

// While it decodes, a request leaves a state at multiples of this: 256 tokens, on the grid.
std::int64_t decode_grid(std::int64_t grid_tokens);

// Turns that warm the cache and do not count.
inline std::size_t warm_up(const AgentWorkload& workload) { return workload.turns.size() / 4; }

}  // namespace tandem
