// The arithmetic of the small experiment: chains like 7+5-3 over whole numbers modulo m, evaluated
// from left to right, and the text that a base model learns from.
//
// A prompt is "Q:7+5-3=". An answer may show its work, repeating operator and operand at every step
// ("7+5=2-3=9"), and ends in \boxed{9} and the end of the text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace tandem::train {

// Tokens are characters; "\boxed{" is one token.
class ChainVocabulary {
 public:
  static constexpr TokenId kPad = 0, kBegin = 1, kEnd = 2, kBox = 3, kUnbox = 4;
  static constexpr std::int64_t kSize = 64;

  // Programmer error for a character that has no token.
  static std::vector<TokenId> encode(std::string_view text);
  // Begin, end and padding are left out; ids without a meaning become "?".
  static std::string decode(std::span<const TokenId> ids);
};

struct ChainTaskConfig {
  int modulus = 10;              // up to 10: operands are digits
  std::string operators = "+-";  // of + - *
  int min_operators = 2;
  int max_operators = 4;
};

struct ChainPrompt {
  std::vector<int> operands;  // one more than operators
  std::string operators;
  int modulus = 10;

  int answer() const;
  std::string text() const;  // "Q:7+5-3="
  std::string work() const;  // "7+5=2-3=9"
  // One prompt in sixteen, by a hash of its text: never in training data, only in evaluation.
  bool held_out() const;
};

// Prompt number `index` of a stream; a pure function of its arguments.
enum class PromptSplit { kTraining, kHeldOut };
ChainPrompt chain_prompt(const ChainTaskConfig& config, PromptSplit split, std::uint64_t seed,
                         std::uint64_t index);

// Tokens, and from which one on they are learnt.
struct ChainExample {
  std::vector<TokenId> tokens;
  std::int64_t first_scored = 1;
};

// What the base model is pre-trained on: a fifth is text without arithmetic (words copied and
// sorted), the rest are training prompts with an answer, of which 45 in 100 show their work.
// Whether one does depends on the first digit, so that a model that answers greedily shows it for
// some prompts and not for others, while each keeps a chance of one in ten for the other way.
ChainExample chain_example(const ChainTaskConfig& config, std::uint64_t seed, std::uint64_t index);

// 1 if the answer has one box with the right number and ends behind it, else 0. `tokens` begin
// after the prompt.
double chain_reward(const ChainPrompt& prompt, std::span<const TokenId> tokens);
// Whether the answer shows work before its box.
bool shows_work(std::span<const TokenId> tokens);

}  // namespace tandem::train
