// What constrained decoding costs: host time of a mask and of a token, of the first mask in a
// state, and of compiling. Prints the tables of docs/structured-output.md.
//
//   grammar_bench TOKENIZER_FOLDER VOCAB_SIZE     a folder with tiktoken.model

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/grammar/matcher.h"
#include "text/grammar/state_mask.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

struct Case {
  const char* name;
  const char* schema;
};
constexpr Case kCases[] = {
    {"any object", R"({"type":"object"})"},
    {"tool call",
     R"({"type":"object","properties":{"city":{"type":"string"},"unit":{"enum":["celsius","kelvin"]},
         "days":{"type":"integer","minimum":1,"maximum":14}},"required":["city","unit"],
         "additionalProperties":false})"},
    {"bounded strings",
     R"({"type":"array","items":{"type":"string","minLength":10,"maxLength":200},"maxItems":100})"},
    {"recursive tree",
     R"({"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array",
         "items":{"$ref":"#"}}},"required":["name","children"],"additionalProperties":false})"},
};

// A token out of the mask; seldom the end, so that texts become long.
TokenId choose(std::span<const std::uint64_t> mask, const GrammarVocabulary& vocabulary,
               std::mt19937& random) {
  const auto size = static_cast<TokenId>(vocabulary.size());
  auto id = static_cast<TokenId>(random() % vocabulary.size());
  for (TokenId tried = 0; tried < size; ++tried, id = (id + 1) % size) {
    if (grammar::has_bit(mask, id) && !vocabulary.is_stop(id)) return id;
  }
  return vocabulary.stop_ids()[0];
}

void measure(const Case& c, const Grammar::Vocabulary& vocabulary) {
  const auto start = Clock::now();
  const auto grammar = Grammar::json_schema(c.schema, vocabulary);
  const double compile_us = microseconds_since(start);
  CHECK(grammar.has_value(), "{}", grammar.error().message);
  std::vector<double> cold, warm, accept;
  std::mt19937 random(1);
  for (int text = 0; text < 40; ++text) {
    GrammarMatcher matcher(*grammar);
    std::vector<std::uint64_t> mask(matcher.mask_words());
    for (int step = 0; step < 100 && !matcher.is_finished(); ++step) {
      auto begin = Clock::now();
      matcher.fill_mask(mask);
      // The first texts meet most states for the first time.
      (text < 20 ? cold : warm).push_back(microseconds_since(begin));
      const TokenId id = choose(mask, *vocabulary, random);
      begin = Clock::now();
      CHECK(matcher.accept(id), "token {} was refused", id);
      accept.push_back(microseconds_since(begin));
    }
  }
  fmt::print("| {} | {:.1f} | {:.1f} | {:.1f} | {:.0f} | {:.1f} | {:.1f} |\n", c.name,
             compile_us / 1000, quantile(warm, 0.5), quantile(warm, 0.99), quantile(cold, 1.0),
             quantile(cold, 0.5), quantile(accept, 0.5));
}

int run(const std::filesystem::path& folder, std::int64_t vocab_size) {
  auto ranks = RankTable::load(folder / "tiktoken.model");
  CHECK(ranks.has_value(), "{}", ranks.error().message);
  const auto tokenizer = Tokenizer::create(*std::move(ranks), {}, vocab_size);
  CHECK(tokenizer.has_value(), "{}", tokenizer.error().message);
  const auto start = Clock::now();
  const std::vector<TokenId> stop{static_cast<TokenId>(vocab_size - 1)};
  const auto vocabulary = GrammarVocabulary::create(**tokenizer, stop);
  fmt::print("{} tokens, {} nodes, indexed in {:.0f} ms\n\n", vocabulary->tokens().size(),
             vocabulary->nodes().size(), microseconds_since(start) / 1000);
  fmt::print(
      "| grammar | compile, ms | mask, us: median | 99 % | worst first | median first | token, us "
      "|\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  for (const Case& c : kCases) measure(c, vocabulary);
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  std::int64_t vocab_size = 0;
  const std::string_view count = argc == 3 ? argv[2] : "";
  std::from_chars(count.data(), count.data() + count.size(), vocab_size);
  if (vocab_size <= 0) {
    std::fputs("grammar_bench TOKENIZER_FOLDER VOCAB_SIZE\n", stderr);
    return 2;
  }
  return tandem::run(argv[1], vocab_size);
}
