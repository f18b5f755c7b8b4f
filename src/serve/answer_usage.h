// What an answer took, counted as it comes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/answer_sink.h"

namespace tandem {

// Of all choices: a prompt counts once, times are those of the slowest.
struct AnswerUsage {
  std::int64_t prompt_tokens = 0;
  CacheUse cache = {};  // of each prompt's first choice; the miss is the first prompt's
  std::int64_t completion_tokens = 0;  // thinking, markers and the stop id included
  std::int64_t reasoning_tokens = 0;
  double queue_ms = 0;
  double prefill_ms = 0;
  double decode_ms = 0;
};

// For an AnswerWriter, whose calls it is told of.
class UsageCount {
 public:
  // `choices` of each of `prompts`.
  UsageCount(std::int64_t prompt_tokens, int choices, int prompts = 1)
      : per_prompt_(choices), choices_(static_cast<std::size_t>(choices * prompts)) {
    usage_.prompt_tokens = prompt_tokens;
  }

  void on_events(int choice, const std::vector<OutputEvent>& events,
                 std::span<const SampledToken> tokens) {
    Choice& count = choices_[static_cast<std::size_t>(choice)];
    count.tokens += static_cast<std::int64_t>(tokens.size());
    const bool thinks = std::any_of(events.begin(), events.end(), [](const OutputEvent& event) {
      return event.kind == OutputEvent::Kind::kReasoning;
    });
    if (thinks) count.reasoning_tokens = count.tokens;
  }

  void on_end(int choice, const AnswerResult& result) {
    const GenerateUsage& usage = result.result.usage;
    // The first to be submitted is the one that computed what the others found.
    if (choice % per_prompt_ == 0) add(usage.cache, choice == 0);
    usage_.completion_tokens += usage.completion_tokens;
    usage_.reasoning_tokens += choices_[static_cast<std::size_t>(choice)].reasoning_tokens;
    usage_.queue_ms = std::max(usage_.queue_ms, usage.queue_ms);
    usage_.prefill_ms = std::max(usage_.prefill_ms, usage.prefill_ms);
    usage_.decode_ms = std::max(usage_.decode_ms, usage.decode_ms);
  }

  // Of the choices that have ended.
  const AnswerUsage& usage() const { return usage_; }

  // Tokens up to now, of all choices.
  AnswerUsage so_far() const {
    AnswerUsage usage{.prompt_tokens = usage_.prompt_tokens};
    for (const Choice& choice : choices_) {
      usage.completion_tokens += choice.tokens;
      usage.reasoning_tokens += choice.reasoning_tokens;
    }
    return usage;
  }

 private:
  struct Choice {
    std::int64_t tokens = 0;
    std::int64_t reasoning_tokens = 0;  // up to the last one that brought thinking to light
  };

  void add(const CacheUse& cache, bool first) {
    const CacheMiss miss = first ? cache.miss : usage_.cache.miss;
    usage_.cache.cached_tokens += cache.cached_tokens;
    usage_.cache.replayed_tokens += cache.replayed_tokens;
    usage_.cache.text_tokens += cache.text_tokens;
    usage_.cache.miss = miss;
  }

  const int per_prompt_;
  std::vector<Choice> choices_;
  AnswerUsage usage_;
};

}  // namespace tandem
