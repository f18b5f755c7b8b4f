// Where the time of forward steps goes.
#pragma once

#include <array>
#include <utility>

#include "base/clock.h"
#include "model/stage.h"

namespace tandem::measure {

struct StepTimes {
  double wall_s = 0;
  std::array<double, kStageCount> stage_s{};

  // What no stage was entered for.
  double other_s() const {
    double rest = wall_s;
    for (const double s : stage_s) rest -= s;
    return rest;
  }
};

// Adds up the stages of the steps between one take() and the next. Single-threaded; `clock`
// outlives it.
class StageClock final : public StageObserver {
 public:
  explicit StageClock(const Clock& clock) : clock_(clock) {}

  void begin_step() {
    begin_ = clock_.now();
    stage_ = nullptr;
  }
  void on_stage(Stage stage) override {
    close_stage();
    stage_ = &times_.stage_s[static_cast<std::size_t>(stage)];
  }
  void end_step() {
    close_stage();
    stage_ = nullptr;
    times_.wall_s += seconds(begin_, last_);
  }
  // The sums so far; they begin anew.
  StepTimes take() { return std::exchange(times_, {}); }

 private:
  static double seconds(TimePoint begin, TimePoint end) { return milliseconds(begin, end) / 1000; }

  void close_stage() {
    const TimePoint now = clock_.now();
    if (stage_ != nullptr) *stage_ += seconds(last_, now);
    last_ = now;
  }

  const Clock& clock_;
  TimePoint begin_;
  TimePoint last_;
  double* stage_ = nullptr;  // the one that runs
  StepTimes times_;
};

}  // namespace tandem::measure
