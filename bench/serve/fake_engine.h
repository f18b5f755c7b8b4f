// An engine without a model: another implementation of engine/engine.h, for benchmarks of what
// stands in front of one. A program that links fake_engine.cc gets it in place of the real one;
// nothing else changes.
#pragma once

#include <chrono>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace tandem {

struct FakeEnginePlan {
  TokenId token = 0;  // what every answer repeats, up to max_tokens
  // Each step hands one token to every request. 0: steps follow each other while there is work.
  std::chrono::microseconds step{0};
  // Of the request whose seed is i: when each token was handed to its sink, in handed[i]. Written
  // by the engine's thread; to be read once the engine is idle. nullptr: nobody looks.
  std::vector<std::vector<TimePoint>>* handed = nullptr;
};

// Before the first request. What `handed` points to outlives the engine.
void set_fake_engine_plan(const FakeEnginePlan& plan);

}  // namespace tandem
