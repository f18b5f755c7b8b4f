#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/philox.h"
#include "loadgen/workload.h"

namespace tandem::loadgen {
namespace {

constexpr std::array<std::string_view, 48> kWords = {
    "time",    "year",    "people",   "way",    "day",        "man",    "thing", "woman",
    "life",    "child",   "world",    "school", "state",      "family", "house", "group",
    "country", "problem", "hand",     "part",   "place",      "case",   "week",  "company",
    "system",  "program", "question", "work",   "government", "number", "night", "point",
    "home",    "water",   "room",     "mother", "area",       "money",  "story", "fact",
    "month",   "right",   "study",    "book",   "eye",        "job",    "word",  "business"};

// What a random sequence is for; sequences never meet.
enum class Stream : std::uint32_t { kPrefix, kQuestion, kLengths };

// The numbers of one sequence.
class Draws {
 public:
  Draws(std::uint64_t seed, Stream stream, std::int64_t index)
      : seed_(seed),
        stream_(static_cast<std::uint32_t>(stream)),
        index_(static_cast<std::uint64_t>(index)) {}

  std::uint32_t next() {
    return philox(seed_, {static_cast<std::uint32_t>(index_),
                          static_cast<std::uint32_t>(index_ >> 32), stream_, count_++})[0];
  }
  double uniform() { return next() * 0x1p-32; }

 private:
  std::uint64_t seed_;
  std::uint32_t stream_;
  std::uint64_t index_;
  std::uint32_t count_ = 0;
};

std::string words(Draws& draws, std::int64_t count) {
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) text += ' ';
    text += kWords[draws.next() % kWords.size()];
  }
  return text;
}

class SyntheticWorkload final : public Workload {
 public:
  explicit SyntheticWorkload(const SyntheticOptions& options) : options_(options) {}

  std::vector<Turn> conversation(std::int64_t index) const override {
    Draws lengths(options_.seed, Stream::kLengths, index);
    Draws question(options_.seed, Stream::kQuestion, index);
    std::vector<Turn> turns;
    for (std::int64_t i = 0; i < options_.turns; ++i) {
      const std::int64_t prompt_tokens = spread(lengths, options_.prompt_tokens);
      turns.push_back(
          user_turn(words(question, prompt_tokens), spread(lengths, options_.answer_tokens)));
    }
    if (options_.groups > 0) add_prefix(index % options_.groups, turns.front());
    return turns;
  }

 private:
  std::int64_t spread(Draws& draws, std::int64_t tokens) const {
    const double factor = 1 + options_.spread * (2 * draws.uniform() - 1);
    return std::max<std::int64_t>(1, std::llround(static_cast<double>(tokens) * factor));
  }

  void add_prefix(std::int64_t group, Turn& turn) const {
    Draws draws(options_.seed, Stream::kPrefix, group);
    const std::string prefix = words(draws, options_.prefix_tokens);
    const nlohmann::json message = {{"role", "system"}, {"content", prefix}};
    turn.messages = message.dump() + "," + turn.messages;
    turn.text = prefix + "\n" + turn.text;
  }

  const SyntheticOptions options_;
};

}  // namespace

std::unique_ptr<Workload> synthetic_workload(const SyntheticOptions& options) {
  return std::make_unique<SyntheticWorkload>(options);
}

Turn user_turn(const std::string& text, std::int64_t max_tokens) {
  const nlohmann::json message = {{"role", "user"}, {"content", text}};
  return {.messages = message.dump(), .text = text, .max_tokens = max_tokens};
}

}  // namespace tandem::loadgen
