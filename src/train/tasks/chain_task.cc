#include "train/tasks/chain_task.h"

#include <algorithm>

#include "base/check.h"
#include "base/philox.h"

namespace tandem::train {
namespace {

constexpr std::string_view kCharacters = "0123456789+-*=:QA .abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kBoxText = "\\boxed{";
constexpr TokenId kFirstCharacter = 5;
constexpr std::uint64_t kHeldOutShare = 16;
constexpr double kFillerShare = 0.2;
constexpr double kUsualStyle = 0.9;
constexpr int kFirstDigitOfWork = 6;  // of ten: 0.6 * 0.1 + 0.4 * 0.9 show work

// Random numbers of one example.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t index) : key_(seed), base_(index << 12) {}
  double uniform() { return philox_uniform(key_, base_ + next_++); }
  int below(int count) { return static_cast<int>(uniform() * count); }

 private:
  std::uint64_t key_, base_, next_ = 0;
};

int apply(int left, char op, int right, int modulus) {
  const int value = op == '+' ? left + right : op == '-' ? left - right : left * right;
  return (value % modulus + modulus) % modulus;
}

ChainPrompt draw_prompt(const ChainTaskConfig& config, PromptSplit split, Draws& draws) {
  for (;;) {
    ChainPrompt prompt;
    prompt.modulus = config.modulus;
    const int operators =
        config.min_operators + draws.below(config.max_operators - config.min_operators + 1);
    prompt.operands.push_back(draws.below(config.modulus));
    for (int i = 0; i < operators; ++i) {
      prompt.operators += config.operators[static_cast<std::size_t>(
          draws.below(static_cast<int>(config.operators.size())))];
      prompt.operands.push_back(draws.below(config.modulus));
    }
    if (prompt.held_out() == (split == PromptSplit::kHeldOut)) return prompt;
  }
}

// "copy: dcab = dcab." or "sort: dcab = abcd."
std::string filler(Draws& draws) {
  std::string word;
  for (int i = 3 + draws.below(5); i > 0; --i) word += static_cast<char>('a' + draws.below(8));
  std::string other = word;
  const bool sorted = draws.uniform() < 0.5;
  if (sorted) std::sort(other.begin(), other.end());
  return std::string(sorted ? "sort:" : "copy:") + word + "=" + other + ".";
}

void append(std::vector<TokenId>& tokens, std::string_view text) {
  const std::vector<TokenId> more = ChainVocabulary::encode(text);
  tokens.insert(tokens.end(), more.begin(), more.end());
}

}  // namespace

std::vector<TokenId> ChainVocabulary::encode(std::string_view text) {
  std::vector<TokenId> ids;
  while (!text.empty()) {
    if (text.starts_with(kBoxText)) {
      ids.push_back(kBox);
      text.remove_prefix(kBoxText.size());
      continue;
    }
    const std::size_t at = kCharacters.find(text.front());
    CHECK(text.front() == '}' || at != std::string_view::npos, "no token for '{}'", text.front());
    ids.push_back(text.front() == '}' ? kUnbox : kFirstCharacter + static_cast<TokenId>(at));
    text.remove_prefix(1);
  }
  return ids;
}

std::string ChainVocabulary::decode(std::span<const TokenId> ids) {
  std::string text;
  for (const TokenId id : ids) {
    if (id == kPad || id == kBegin || id == kEnd) continue;
    const auto at = static_cast<std::size_t>(id - kFirstCharacter);
    if (id == kBox) {
      text += kBoxText;
    } else if (id == kUnbox) {
      text += '}';
    } else {
      text += id >= kFirstCharacter && at < kCharacters.size() ? kCharacters[at] : '?';
    }
  }
  return text;
}

int ChainPrompt::answer() const {
  int value = operands[0];
  for (std::size_t i = 0; i < operators.size(); ++i) {
    value = apply(value, operators[i], operands[i + 1], modulus);
  }
  return value;
}

std::string ChainPrompt::text() const {
  std::string made = "Q:" + std::to_string(operands[0]);
  for (std::size_t i = 0; i < operators.size(); ++i) {
    made += operators[i] + std::to_string(operands[i + 1]);
  }
  return made + "=";
}

std::string ChainPrompt::work() const {
  int value = operands[0];
  std::string made = std::to_string(value);
  for (std::size_t i = 0; i < operators.size(); ++i) {
    value = apply(value, operators[i], operands[i + 1], modulus);
    made += operators[i] + std::to_string(operands[i + 1]) + "=" + std::to_string(value);
  }
  return made;
}

bool ChainPrompt::held_out() const {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text()) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return (h ^ (h >> 32)) % kHeldOutShare == 0;
}

ChainPrompt chain_prompt(const ChainTaskConfig& config, PromptSplit split, std::uint64_t seed,
                         std::uint64_t index) {
  Draws draws(seed, index);
  return draw_prompt(config, split, draws);
}

ChainExample chain_example(const ChainTaskConfig& config, std::uint64_t seed, std::uint64_t index) {
  Draws draws(seed, index);
  ChainExample example;
  example.tokens = {ChainVocabulary::kBegin};
  if (draws.uniform() < kFillerShare) {
    append(example.tokens, filler(draws));
  } else {
    const ChainPrompt prompt = draw_prompt(config, PromptSplit::kTraining, draws);
    append(example.tokens, prompt.text());
    example.first_scored = static_cast<std::int64_t>(example.tokens.size());
    const bool usually_works = prompt.operands[0] >= kFirstDigitOfWork;
    if ((draws.uniform() < kUsualStyle) == usually_works) append(example.tokens, prompt.work());
    append(example.tokens, "\\boxed{" + std::to_string(prompt.answer()) + "}");
  }
  example.tokens.push_back(ChainVocabulary::kEnd);
  return example;
}

double chain_reward(const ChainPrompt& prompt, std::span<const TokenId> tokens) {
  const auto box = std::find(tokens.begin(), tokens.end(), ChainVocabulary::kBox);
  std::vector<TokenId> expected = {ChainVocabulary::kBox};
  append(expected, std::to_string(prompt.answer()) + "}");
  expected.push_back(ChainVocabulary::kEnd);
  return std::equal(box, tokens.end(), expected.begin(), expected.end()) ? 1 : 0;
}

bool shows_work(std::span<const TokenId> tokens) {
  return !tokens.empty() && tokens.front() != ChainVocabulary::kBox;
}

}  // namespace tandem::train
