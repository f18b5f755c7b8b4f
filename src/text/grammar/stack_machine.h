// Runs a pushdown on bytes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "text/grammar/pushdown.h"

namespace tandem::grammar {

// Index of a stack of return states; stacks share their lower parts and are never changed.
using StackId = std::int32_t;
inline constexpr StackId kBottom = -1;

// Index of a set of configurations.
using SetId = std::int32_t;
inline constexpr SetId kDead = 0;  // no configuration is left: the text was refused

// A rule may be in several states at once, each with its own stack. Such sets get numbers, and
// which set follows another on a byte is remembered, so that most steps are one table look-up: the
// deterministic automaton of the pushdown, built as far as it is used.
// Single owner. The pushdown must outlive it.
class StackMachine {
 public:
  struct Config {
    StateId state;  // reads a byte next
    StackId stack;
    bool operator==(const Config&) const = default;
  };
  // An ambiguous grammar could need any number of configurations; those above this number are
  // dropped, which refuses some texts but never lets a wrong one pass.
  static constexpr std::size_t kMaxConfigs = 256;

  explicit StackMachine(const Pushdown& pushdown);

  // The set before anything was read.
  SetId start();
  // The set of one state on an empty stack, calls not followed.
  SetId only(StateId state);
  // kDead where `byte` cannot follow.
  SetId step(SetId set, std::uint8_t byte) {
    const auto& next = sets_[static_cast<std::size_t>(set)].next;
    if (next) {
      const SetId known = (*next)[byte];
      if (known != kUnknown) return known;
    }
    return compute_step(set, byte);
  }
  SetId run(SetId set, std::string_view bytes);

  std::span<const Config> configs(SetId set) const {
    return sets_[static_cast<std::size_t>(set)].configs;
  }
  // True if the text may end here: the bottom of the stack was returned from.
  bool at_end(SetId set) const { return sets_[static_cast<std::size_t>(set)].at_end; }
  std::size_t set_count() const { return sets_.size(); }

  // A machine that knows the `kept` sets only, whose numbers change to their new ones.
  StackMachine compacted(std::span<SetId> kept) const;

 private:
  static constexpr SetId kUnknown = -1;
  struct Frame {
    StateId resume;
    StackId below;
  };
  struct Set {
    std::vector<Config> configs;
    bool at_end = false;
    std::unique_ptr<std::array<SetId, 256>> next = nullptr;  // made when first stepped from
  };

  SetId compute_step(SetId set, std::uint8_t byte);
  // Follows calls and returns from `work`, and numbers the set that results.
  SetId close(std::vector<Config> work);
  SetId intern(std::vector<Config> configs, bool at_end);
  StackId push(StateId resume, StackId below);

  const Pushdown* pushdown_;
  std::vector<Frame> frames_;
  std::unordered_map<std::uint64_t, StackId> frame_ids_;  // resume << 32 | below
  std::vector<Set> sets_;
  std::unordered_multimap<std::uint64_t, SetId> set_ids_;  // by hash
};

}  // namespace tandem::grammar
