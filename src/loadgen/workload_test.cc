#include "loadgen/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tandem::loadgen {
namespace {

using Json = nlohmann::json;

Json messages(const Turn& turn) { return Json::parse("[" + turn.messages + "]"); }
auto words(const std::string& text) { return std::count(text.begin(), text.end(), ' ') + 1; }

TEST(SyntheticWorkload, lengths_spread_evenly_around_what_was_asked) {
  const auto workload =
      synthetic_workload({.prompt_tokens = 100, .answer_tokens = 10, .spread = 0.5});
  std::vector<std::int64_t> lengths;
  for (int i = 0; i < 500; ++i) {
    const Turn turn = workload->conversation(i).at(0);
    lengths.push_back(words(messages(turn)[0]["content"]));
    EXPECT_GE(turn.max_tokens, 5);
    EXPECT_LE(turn.max_tokens, 15);
    EXPECT_EQ(messages(turn)[0]["content"], turn.text);
  }
  const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
  EXPECT_GE(*least, 50);
  EXPECT_LT(*least, 60);
  EXPECT_LE(*most, 150);
  EXPECT_GT(*most, 140);
}

TEST(SyntheticWorkload, without_spread_lengths_are_exact_and_prompts_still_differ) {
  const auto workload = synthetic_workload({.prompt_tokens = 20, .answer_tokens = 3, .spread = 0});
  EXPECT_EQ(words(workload->conversation(0)[0].text), 20);
  EXPECT_EQ(workload->conversation(5)[0].max_tokens, 3);
  EXPECT_NE(workload->conversation(0)[0].text, workload->conversation(1)[0].text);
}

TEST(SyntheticWorkload, repeats_with_its_seed_only) {
  const auto text = [](std::uint64_t seed) {
    return synthetic_workload({.seed = seed})->conversation(3)[0].text;
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(SyntheticWorkload, a_group_shares_its_prefix_and_nothing_else) {
  const auto workload =
      synthetic_workload({.prompt_tokens = 10, .spread = 0, .groups = 3, .prefix_tokens = 30});
  const auto first = messages(workload->conversation(1)[0]);
  const auto same = messages(workload->conversation(4)[0]);
  const auto other = messages(workload->conversation(2)[0]);
  EXPECT_EQ(first[0]["role"], "system");
  EXPECT_EQ(words(first[0]["content"]), 30);
  EXPECT_EQ(first[0], same[0]);
  EXPECT_NE(first[1], same[1]);
  EXPECT_NE(first[0], other[0]);
  EXPECT_TRUE(
      workload->conversation(1)[0].text.starts_with(first[0]["content"].get<std::string>() + "\n"));
}

TEST(SyntheticWorkload, a_conversation_has_as_many_different_turns_as_asked) {
  const auto turns = synthetic_workload({.turns = 4})->conversation(0);
  ASSERT_EQ(turns.size(), 4u);
  EXPECT_NE(turns[0].text, turns[1].text);
}

TEST(Dataset, reads_lines_of_messages_and_prompts_in_turn) {
  const auto data =
      parse_dataset(
          "{\"prompt\": \"one\"}\n\n"
          "{\"messages\": [{\"role\":\"system\",\"content\":\"s\"},"
          "{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}], \"max_tokens\": 7}",
          5)
          .value();
  EXPECT_EQ(data->conversation(0)[0].text, "one");
  EXPECT_EQ(data->conversation(0)[0].max_tokens, 5);
  const Turn second = data->conversation(1)[0];
  EXPECT_EQ(messages(second).size(), 2u);
  EXPECT_EQ(messages(second)[1]["content"][0]["type"], "text");  // passed on as it is
  EXPECT_EQ(second.max_tokens, 7);
  EXPECT_EQ(data->conversation(2)[0].text, "one");  // again from the start
}

TEST(Dataset, takes_the_first_question_of_each_shared_conversation) {
  const auto data = parse_dataset(R"( [{"conversations": [{"from": "system", "value": "s"},
          {"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
          {"conversations": []}, 3, {"conversations": [{"from": "human", "value": "r"}]}])",
                                  9)
                        .value();
  EXPECT_EQ(data->conversation(0)[0].text, "q");
  EXPECT_EQ(data->conversation(1)[0].text, "r");
  EXPECT_EQ(data->conversation(0)[0].max_tokens, 9);
}

TEST(Dataset, errors_name_the_line) {
  const auto message = [](std::string_view text) {
    const auto data = parse_dataset(text, 1);
    return data ? std::string("accepted") : data.error().message;
  };
  EXPECT_EQ(message("{\"prompt\": \"a\"}\nnonsense"), "line 2: not a JSON object");
  EXPECT_EQ(message("{}"), "line 1: expected \"messages\" or \"prompt\"");
  EXPECT_EQ(message("{\"prompt\": 3}"), "line 1: prompt: expected a string");
  EXPECT_EQ(message("{\"messages\": []}"), "line 1: messages: expected a list, not empty");
  EXPECT_EQ(message("{\"messages\": [1]}"), "line 1: messages: expected objects");
  EXPECT_EQ(message("{\"prompt\": \"a\", \"max_tokens\": 0}"),
            "line 1: max_tokens: expected a positive integer");
  EXPECT_EQ(message("[1"), "begins as a JSON array, but is none");
  EXPECT_EQ(message("\n \n"), "there is nothing to ask in it");
  EXPECT_EQ(message("[]"), "there is nothing to ask in it");
  EXPECT_EQ(read_dataset("/nonexistent/file", 1).error().message,
            "/nonexistent/file cannot be read");
}

}  // namespace
}  // namespace tandem::loadgen
