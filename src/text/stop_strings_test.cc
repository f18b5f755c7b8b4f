#include "text/stop_strings.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>

namespace tandem {
namespace {

using Stops = std::vector<std::string>;

// All that comes out when the pieces are fed in turn.
std::string read(const Stops& stops, const std::vector<std::string>& pieces) {
  StopStringMatcher matcher(stops);
  std::string text;
  for (const std::string& piece : pieces) text += matcher.feed(piece);
  if (!matcher.stopped()) text += matcher.flush();
  return text;
}

TEST(StopStringMatcher, says_which_stop_it_found) {
  StopStringMatcher matcher({"b", "ab", "c"});
  matcher.feed("xa");
  EXPECT_EQ(matcher.found(), "");
  matcher.feed("bc");
  EXPECT_EQ(matcher.found(), "ab");
}

TEST(StopStringMatcher, cuts_before_the_stop_even_across_pieces) {
  EXPECT_EQ(read({"END"}, {"one EN", "D two"}), "one ");
  EXPECT_EQ(read({"END"}, {"one EN", "d two"}), "one ENd two");
  EXPECT_EQ(read({"aab"}, {"a", "a", "a", "b", "c"}), "a");
  EXPECT_EQ(read({}, {"any", "thing"}), "anything");
  EXPECT_EQ(read({""}, {"any", "thing"}), "anything");
}

TEST(StopStringMatcher, holds_back_only_what_may_become_a_stop) {
  StopStringMatcher matcher({"\n\nUser:", "###"});
  EXPECT_EQ(matcher.feed("abc\n"), "abc");
  EXPECT_EQ(matcher.feed("\n"), "");
  EXPECT_EQ(matcher.feed("x#"), "\n\nx");
  EXPECT_EQ(matcher.feed("#"), "");
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.feed("#tail"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.feed("more"), "");
}

TEST(StopStringMatcher, the_stop_that_is_complete_first_wins_then_the_longest) {
  EXPECT_EQ(read({"abcd", "bc"}, {"xabcd"}), "xa");
  EXPECT_EQ(read({"c", "abc"}, {"xabc"}), "x");
}

TEST(StopStringMatcher, keeps_the_stop_if_asked_to_and_nothing_after_it) {
  StopStringMatcher matcher({"END"}, StopText::kKeep);
  EXPECT_EQ(matcher.feed("one E"), "one ");
  EXPECT_EQ(matcher.feed("ND two"), "END");
  EXPECT_TRUE(matcher.stopped());
}

TEST(StopStringMatcher, flush_starts_afresh) {
  StopStringMatcher matcher({"ab"});
  EXPECT_EQ(matcher.feed("a"), "");
  EXPECT_EQ(matcher.flush(), "a");
  EXPECT_EQ(matcher.feed("b"), "b");
}

TEST(StopStringMatcher, any_cut_of_the_text_gives_the_definitions_result) {
  EXPECT_TRUE(rc::check([] {
    const auto letter = rc::gen::elementOf(std::string("ab"));
    const auto stops = *rc::gen::container<Stops>(
        2, rc::gen::nonEmpty(rc::gen::resize(5, rc::gen::container<std::string>(letter))));
    const auto text = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("abc")));
    std::size_t end = std::string::npos, length = 0;
    for (const std::string& stop : stops) {
      const std::size_t at = text.find(stop);
      if (at == std::string::npos) continue;
      if (at + stop.size() < end || (at + stop.size() == end && stop.size() > length)) {
        end = at + stop.size();
        length = stop.size();
      }
    }
    const std::string expected = end == std::string::npos ? text : text.substr(0, end - length);
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const auto n = *rc::gen::inRange<std::size_t>(1, 4);
      pieces.push_back(text.substr(at, n));
      at += n;
    }
    RC_ASSERT(read(stops, pieces) == expected);
  }));
}

}  // namespace
}  // namespace tandem
