#include "serve/held_output.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "serve/answer_usage.h"

namespace tandem {
namespace {

using Kind = OutputEvent::Kind;

// What a client and an account see of an answer, however it is cut into pieces.
struct Seen {
  std::vector<OutputEvent> events = {};  // texts that continue each other joined
  std::vector<TokenId> tokens = {};
  std::int64_t reasoning_tokens = 0;

  bool operator==(const Seen&) const = default;
};

class Observer {
 public:
  void on_events(const std::vector<OutputEvent>& events, std::span<const SampledToken> tokens) {
    for (const OutputEvent& event : events) {
      const bool joins = !seen_.events.empty() && seen_.events.back().kind == event.kind &&
                         seen_.events.back().call == event.call && event.kind != Kind::kToolCallEnd;
      if (joins) {
        seen_.events.back().text += event.text;
      } else {
        seen_.events.push_back(event);
      }
    }
    for (const SampledToken& token : tokens) seen_.tokens.push_back(token.id);
    usage_.on_events(0, events, tokens);
  }
  Seen seen() const {
    Seen seen = seen_;
    seen.reasoning_tokens = usage_.so_far().reasoning_tokens;
    return seen;
  }

 private:
  Seen seen_;
  UsageCount usage_{1, 1};
};

// As parsers give them: mostly text, sometimes nothing, a call's begin or end, or several at once.
std::vector<OutputEvent> any_events() {
  const auto text = [](Kind kind) {
    return OutputEvent{.kind = kind, .text = *rc::gen::element<std::string>("a", "bc", "")};
  };
  switch (*rc::gen::inRange(0, 6)) {
    case 0:
      return {};
    case 1:
      return {text(Kind::kReasoning)};
    case 2:
      return {{.kind = Kind::kToolCallEnd, .call = 1}};
    case 3:
      return {text(Kind::kReasoning), text(Kind::kContent)};
    case 4:
      return {{.kind = Kind::kToolCallArguments, .text = "{", .call = *rc::gen::inRange(0, 2)}};
    default:
      return {text(Kind::kContent)};
  }
}

TEST(HeldOutput, joining_changes_neither_what_is_seen_nor_what_is_counted) {
  const bool holds = rc::check([] {
    HeldOutput held(1);
    Observer at_once, joined;
    const auto take = [&] {
      for (const HeldOutput::Piece& piece : held.take())
        joined.on_events(piece.events, piece.tokens);
      RC_ASSERT(held.bytes() == 0u);
      RC_ASSERT(at_once.seen() == joined.seen());
    };
    const auto count = *rc::gen::inRange<TokenId>(0, 30);
    for (TokenId id = 0; id < count; ++id) {
      const auto events = any_events();
      std::optional<SampledToken> token;
      if (*rc::gen::inRange(0, 8) != 0) token = SampledToken{.id = id};
      at_once.on_events(events, token ? std::span(&*token, 1) : std::span<const SampledToken>());
      held.add(0, events, token);
      if (*rc::gen::inRange(0, 10) == 0) take();
    }
    take();
  });
  EXPECT_TRUE(holds);
}

TEST(HeldOutput, text_of_one_kind_becomes_one_piece_a_choice) {
  HeldOutput held(2);
  for (TokenId id = 0; id < 5; ++id) {
    held.add(1, {{.kind = Kind::kContent, .text = "x"}}, SampledToken{.id = id});
    // As within a character of several bytes.
    held.add(1, {}, SampledToken{.id = 100 + id});
    held.add(0, {{.kind = Kind::kReasoning, .text = "y"}}, SampledToken{.id = id});
  }
  EXPECT_GT(held.bytes(), 10u);
  const auto pieces = held.take();
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].events[0].text, "yyyyy");
  EXPECT_EQ(pieces[1].events[0].text, "xxxxx");
  EXPECT_EQ(pieces[1].tokens.size(), 9u);
  EXPECT_TRUE(pieces[2].events.empty());
  EXPECT_EQ(pieces[2].tokens.size(), 1u);
  EXPECT_TRUE(held.take().empty());
}

}  // namespace
}  // namespace tandem
