#include "cache/agent_workload.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "cache/python_random.h"

namespace tandem {
namespace {

constexpr std::int64_t kTokenBits = 15;  // of a token's place in its segment

struct Session {
  int tip = 0;
  std::int64_t turns = 0;
  std::int64_t max_turns = 0;
  std::vector<int> answers = {};
  bool is_sub_agent = false;
};

}  // namespace

int AgentWorkload::add_segment(int parent, std::int64_t tokens) {
  const std::int64_t start = parent < 0 ? 0 : at(parent).end_tokens;
  segments.push_back({.parent = parent, .start_tokens = start, .end_tokens = start + tokens});
  return static_cast<int>(segments.size()) - 1;
}

std::int64_t AgentWorkload::distinct_tokens() const {
  std::int64_t sum = 0;
  for (const Segment& segment : segments) sum += segment.tokens();
  return sum;
}

std::vector<int> AgentWorkload::path(int last) const {
  std::vector<int> path;
  for (int segment = last; segment >= 0; segment = at(segment).parent) path.push_back(segment);
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<TokenId> AgentWorkload::text(int last) const {
  std::vector<TokenId> tokens;
  tokens.reserve(static_cast<std::size_t>(at(last).end_tokens));
  for (const int segment : path(last)) {
    const std::int64_t count = at(segment).tokens();
    CHECK(count < 1 << kTokenBits && segment < 1 << (31 - kTokenBits),
          "no distinct tokens left for segment {} of {}", segment, count);
    for (std::int64_t i = 0; i < count; ++i) {
      tokens.push_back((segment << kTokenBits) + static_cast<TokenId>(i));
    }
  }
  return tokens;
}

// Every draw stands where the Python study makes it; so their order is part of the definition.
AgentWorkload make_agent_workload(std::uint32_t seed, std::size_t turns) {
  constexpr std::int64_t kPrompts = 8;
  constexpr std::size_t kLiveSessions = 48;
  constexpr std::int64_t kLongestTokens = 180'000;
  PythonRandom random(seed);
  AgentWorkload workload;
  for (int i = 0; i < kPrompts; ++i) workload.add_segment(-1, random.randint(9000, 20'000));
  std::vector<Session> sessions;
  while (workload.turns.size() < turns) {
    while (sessions.size() < kLiveSessions) {
      const auto tip = static_cast<int>(random.below(kPrompts));
      sessions.push_back({.tip = tip, .max_turns = random.randint(8, 40)});
    }
    const auto drawn =
        static_cast<std::size_t>(random.below(static_cast<std::int64_t>(sessions.size())));
    Session& session = sessions[drawn];
    const bool goes_back = random.random() < 0.06;
    if (goes_back && !session.answers.empty()) {
      const auto count = static_cast<std::int64_t>(session.answers.size());
      session.tip = session.answers[static_cast<std::size_t>(random.below(count))];
    }
    const bool is_short = random.random() < 0.8;
    const int message = workload.add_segment(
        session.tip, is_short ? random.randint(150, 3500) : random.randint(4000, 12'000));
    const int answer = workload.add_segment(message, random.randint(80, 900));
    workload.turns.push_back({.message = message, .answer = answer});
    session.answers.push_back(answer);
    session.tip = answer;
    ++session.turns;
    const bool ends =
        session.turns >= session.max_turns || workload.at(answer).end_tokens > kLongestTokens;
    if (!session.is_sub_agent && random.random() < 0.18) {
      for (std::int64_t count = random.randint(2, 4); count > 0; --count) {
        sessions.push_back(
            {.tip = answer, .max_turns = random.randint(2, 6), .is_sub_agent = true});
      }
    }
    if (ends) sessions.erase(sessions.begin() + static_cast<std::ptrdiff_t>(drawn));
  }
  return workload;
}

std::int64_t decode_grid(std::int64_t grid_tokens) {
  return std::lcm(std::int64_t{256}, grid_tokens);
}

double prefill_time(double tokens) { return tokens + tokens * tokens / 120'000.0; }

void Earnings::add(std::int64_t prompt, std::int64_t rows, std::int64_t hit) {
  prompt_tokens += static_cast<double>(prompt);
  row_tokens += static_cast<double>(rows);
  hit_tokens += static_cast<double>(hit);
  const double cold = prefill_time(static_cast<double>(prompt));
  cold_time += cold;
  time += cold - prefill_time(static_cast<double>(hit));
}

}  // namespace tandem
