#define PCRE2_CODE_UNIT_WIDTH 8
#include "train/rl/reward.h"

#include <pcre2.h>

#include "train/rl/math_answer.h"

namespace tandem::train {
namespace {

constexpr std::size_t kDapoTail = 300;
// A pattern that would search longer on an answer is taken as not matching.
constexpr std::uint32_t kMaxMatchSteps = 1'000'000;
constexpr std::uint32_t kMaxMatchMemoryKib = 16 * 1024;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
using Pattern = std::unique_ptr<pcre2_code, FreeCode>;

Result<Pattern> compile(std::string_view pattern) {
  int error = 0;
  PCRE2_SIZE where = 0;
  Pattern code(pcre2_compile(units(pattern), pattern.size(), PCRE2_UTF | PCRE2_MATCH_INVALID_UTF,
                             &error, &where, nullptr));
  if (code) return code;
  std::string message(256, '\0');
  const int length = pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message.data()),
                                             message.size());
  message.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
  return invalid("reward 'regex:{}': {} at byte {}", pattern, message, where);
}

double match_score(const pcre2_code& code, std::string_view answer, std::string_view label) {
  const std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> limits(
      pcre2_match_context_create(nullptr), &pcre2_match_context_free);
  pcre2_set_match_limit(limits.get(), kMaxMatchSteps);
  pcre2_set_heap_limit(limits.get(), kMaxMatchMemoryKib);
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create_from_pattern(&code, nullptr), &pcre2_match_data_free);
  const int groups =
      pcre2_match(&code, units(answer), answer.size(), 0, 0, match.get(), limits.get());
  if (groups < 1) return 0;
  std::uint32_t captures = 0;
  pcre2_pattern_info(&code, PCRE2_INFO_CAPTURECOUNT, &captures);
  if (captures == 0) return 1;
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
  if (groups < 2 || ends[2] == PCRE2_UNSET) return 0;
  return trimmed(answer.substr(ends[2], ends[3] - ends[2])) == trimmed(label) ? 1 : 0;
}

double boxed_score(std::optional<std::string_view> text, std::string_view label) {
  const auto boxed = text ? last_boxed(*text) : std::nullopt;
  return boxed && same_answer(*boxed, label) ? 1 : 0;
}

double dapo_score(std::string_view answer, std::string_view label) {
  constexpr std::string_view kMark = "Answer:";
  const std::string_view tail =
      answer.size() > kDapoTail ? answer.substr(answer.size() - kDapoTail) : answer;
  const std::size_t at = tail.rfind(kMark);
  if (at == std::string_view::npos) return -1;
  const std::string_view after = tail.substr(at + kMark.size());
  const std::string given = string_normal_form(after.substr(0, after.find('\n')));
  return !given.empty() && given == string_normal_form(label) ? 1 : -1;
}

}  // namespace

struct Reward::Rule {
  enum class Kind { kMath, kDeepscaler, kDapo, kExact, kRegex };
  Kind kind = Kind::kExact;
  bool boxed = false;
  Pattern pattern;

  double score(std::string_view answer, std::string_view label) const {
    switch (kind) {
      case Kind::kMath:
        return boxed_score(answer, label);
      case Kind::kDeepscaler:
        return boxed_score(after_reasoning(answer), label);
      case Kind::kDapo:
        return dapo_score(answer, label);
      case Kind::kExact:
        return trimmed(answer) == trimmed(label) ? 1 : 0;
      case Kind::kRegex:
        return match_score(*pattern, answer, label);
    }
    return 0;
  }
};

Reward::Reward(std::unique_ptr<const Rule> rule) : rule_(std::move(rule)) {}
Reward::Reward(Reward&&) noexcept = default;
Reward& Reward::operator=(Reward&&) noexcept = default;
Reward::~Reward() = default;

Result<Reward> Reward::create(std::string_view rule) {
  constexpr std::string_view kBoxed = "boxed_";
  constexpr std::string_view kRegex = "regex:";
  auto made = std::make_unique<Rule>();
  std::string_view name = rule;
  if (name.starts_with(kBoxed)) {
    made->boxed = true;
    name.remove_prefix(kBoxed.size());
  }
  if (name == "math") {
    made->kind = Rule::Kind::kMath;
  } else if (name == "deepscaler") {
    made->kind = Rule::Kind::kDeepscaler;
  } else if (name == "dapo") {
    made->kind = Rule::Kind::kDapo;
  } else if (name == "exact") {
    made->kind = Rule::Kind::kExact;
  } else if (name.starts_with(kRegex)) {
    made->kind = Rule::Kind::kRegex;
    made->pattern = TRY(compile(name.substr(kRegex.size())));
  } else {
    return invalid(
        "reward: expected math, deepscaler, dapo, exact, regex:PATTERN or boxed_ before one of "
        "them, got '{}'",
        rule);
  }
  return Reward(std::move(made));
}

double Reward::score(std::string_view answer, std::string_view label) const {
  if (!rule_->boxed) return rule_->score(answer, label);
  const auto boxed = last_boxed(answer);
  if (!boxed) return rule_->kind == Rule::Kind::kDapo ? -1 : 0;
  return rule_->score(*boxed, label);
}

}  // namespace tandem::train
