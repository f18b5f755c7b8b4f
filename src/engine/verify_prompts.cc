#include "engine/verify_prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/philox.h"
#include "engine/verify.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace tandem {
namespace {

// Tasks as small models know them, over random numbers and words.
std::string task(std::uint64_t seed, std::uint32_t index) {
  const auto r = philox(seed, {index, 0, 0, 0});
  static constexpr std::array<std::string_view, 8> kWords = {
      "river", "lantern", "quiet", "seven", "harbour", "moss", "copper", "window"};
  switch (r[0] % 4) {
    case 0:
      return fmt::format("What is {} + {}?", r[1] % 10'000, r[2] % 10'000);
    case 1:
      return fmt::format("Sort these numbers: {}, {}, {}, {}.", r[1] % 100, r[2] % 100, r[3] % 100,
                         (r[1] >> 8) % 100);
    case 2:
      return fmt::format("Spell the word {} backwards.", kWords[r[1] % kWords.size()]);
    default:
      return fmt::format("Write one sentence with the words {} and {}.",
                         kWords[r[1] % kWords.size()], kWords[r[2] % kWords.size()]);
  }
}

}  // namespace

Result<std::vector<std::vector<TokenId>>> verify_prompts(const std::filesystem::path& folder,
                                                         const ModelSpec& spec, std::int64_t count,
                                                         std::int64_t longest, std::uint64_t seed) {
  longest = std::min(longest, spec.context_length * 3 / 4);
  if (!std::filesystem::exists(folder / "tiktoken.model")) {
    return random_prompts(spec, count, longest, seed);
  }
  const auto tokenizer = TRY(Tokenizer::load(folder, spec.vocab_size));
  const auto format = make_chat_format(TRY(detect_chat_family(*tokenizer)), *tokenizer);
  std::vector<std::vector<TokenId>> prompts;
  std::uint32_t next = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    ChatRequest request;
    if (i % 2 == 0) {
      request.messages.push_back(
          {.role = "system",
           .content = "You answer questions in few words. Numbers stay numbers."});
    }
    request.messages.push_back({.role = "user", .content = task(seed, next++)});
    Prompt prompt = TRY(format->render(request));
    // Longer ones have more turns behind them.
    const std::int64_t wanted = longest * (i % 8) / 8;
    while (static_cast<std::int64_t>(prompt.ids.size()) < wanted) {
      request.messages.push_back({.role = "assistant", .content = task(seed, next++)});
      request.messages.push_back({.role = "user", .content = task(seed, next++)});
      prompt = TRY(format->render(request));
    }
    prompts.push_back(std::move(prompt.ids));
  }
  return prompts;
}

}  // namespace tandem
