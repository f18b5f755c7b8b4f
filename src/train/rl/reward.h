// Rewards: what an answer to a prompt is worth.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem::train {

// One rule of reward by name:
//   math        1 if the last \boxed{} equals the label (same_answer), else 0
//   deepscaler  the same within what follows the reasoning; 0 if no reasoning ends
//   dapo        the last "Answer: ..." line of the last 300 bytes against the label: 1 or -1
//   exact       1 if answer and label are the same but for white space around them, else 0
//   regex:P     1 if P matches somewhere in the answer and, where P has a group, the first group
//               equals the label but for white space around it; else 0 (PCRE2, UTF-8)
//   boxed_RULE  RULE on the content of the last \boxed{}; 0 (dapo: -1) if there is none
// Immutable, thread-safe. No answer is an error: what cannot be judged is worth what a wrong answer
// is.
class Reward {
 public:
  // kInvalidArgument names an unknown rule, or the pattern and what is wrong with it.
  static Result<Reward> create(std::string_view rule);
  Reward(Reward&&) noexcept;
  Reward& operator=(Reward&&) noexcept;
  ~Reward();

  double score(std::string_view answer, std::string_view label) const;

 private:
  struct Rule;
  explicit Reward(std::unique_ptr<const Rule> rule);
  std::unique_ptr<const Rule> rule_;
};

}  // namespace tandem::train
