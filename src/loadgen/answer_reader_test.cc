#include "loadgen/answer_reader.h"

#include <gtest/gtest.h>

namespace tandem::loadgen {
namespace {

std::string delta(const std::string& fields, const std::string& finish = "null") {
  return "data: {\"choices\":[{\"index\":0,\"delta\":{" + fields + "},\"finish_reason\":" + finish +
         "}]}\n\n";
}
const std::string kStop = delta("", "\"stop\"");
const std::string kUsage =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,"
    "\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n";
const std::string kDone = "data: [DONE]\n\n";

// The reader after a response of status 200 that came as these pieces, 10 ms apart.
AnswerReader read(const std::vector<std::string>& pieces, CallEnd end = CallEnd::kComplete) {
  AnswerReader reader;
  reader.on_head(200, "text/event-stream; charset=utf-8");
  double now_s = 1;
  for (const std::string& piece : pieces) {
    if (!reader.on_body(piece, now_s)) return reader;
    now_s += 0.01;
  }
  reader.on_end(end, "");
  return reader;
}

TEST(AnswerReader, times_pieces_that_show_something_only) {
  AnswerReader reader =
      read({delta("\"role\":\"assistant\",\"content\":\"\""), delta("\"reasoning_content\":\"h\""),
            ": ping\n\n", delta("\"content\":\"a\""), delta("\"tool_calls\":[{\"index\":0}]"),
            kStop + kUsage, kDone});
  const RequestRecord& record = reader.record();
  EXPECT_EQ(record.error, "");
  EXPECT_DOUBLE_EQ(record.first_s, 1.01);
  EXPECT_DOUBLE_EQ(record.last_s, 1.04);
  ASSERT_EQ(record.gaps_ms.size(), 2u);
  EXPECT_NEAR(record.gaps_ms[0], 20, 1e-6);
  EXPECT_NEAR(record.gaps_ms[1], 10, 1e-6);
  EXPECT_EQ(record.prompt_tokens, 9);
  EXPECT_EQ(record.completion_tokens, 3);
  EXPECT_EQ(record.cached_tokens, 4);
  EXPECT_EQ(reader.content(), "a");
  EXPECT_EQ(reader.reasoning(), "h");
}

TEST(AnswerReader, reads_completions_and_servers_that_count_nothing) {
  AnswerReader reader = read(
      {"data: {\"choices\":[{\"text\":\"x\",\"finish_reason\":\"length\"}],\"usage\":null}\n\n",
       kDone});
  EXPECT_EQ(reader.record().error, "");
  EXPECT_EQ(reader.content(), "x");
  EXPECT_EQ(reader.record().completion_tokens, -1);
}

TEST(AnswerReader, what_is_not_a_whole_answer_is_an_error) {
  const std::string text = delta("\"content\":\"a\"");
  const auto error = [](const std::vector<std::string>& pieces, CallEnd end = CallEnd::kComplete) {
    return read(pieces, end).record().error;
  };
  EXPECT_EQ(error({text, kStop, kDone}), "");
  EXPECT_EQ(error({text, kStop}), "cut off");
  EXPECT_EQ(error({text, kStop, kDone}, CallEnd::kCut), "cut off");
  EXPECT_EQ(error({text, kDone}), "unfinished");
  EXPECT_EQ(error({text, delta("", "\"abort\""), kDone}), "unfinished");
  EXPECT_EQ(error({}), "cut off");
  EXPECT_EQ(error({text}, CallEnd::kTimeout), "timeout");
  EXPECT_EQ(error({}, CallEnd::kConnect), "no connection");
  EXPECT_EQ(error({}, CallEnd::kMalformed), "not HTTP");
  EXPECT_EQ(error({text, "data: {oops\n\n", kStop, kDone}), "garbage");
  EXPECT_EQ(error({"data: {}\n\n"}), "garbage");
  EXPECT_EQ(error({"data: []\n\n"}), "garbage");
  AnswerReader failed = read({text, "data: {\"error\":{\"message\":\"no\\nway\"}}\n\n" + kDone});
  EXPECT_EQ(failed.record().error, "error in the stream");
  EXPECT_EQ(failed.record().detail, "no way");
}

TEST(AnswerReader, another_status_is_an_error_with_the_servers_words) {
  AnswerReader reader;
  reader.on_head(429, "application/json");
  EXPECT_TRUE(reader.on_body("{\"error\":{\"mess", 1));
  EXPECT_TRUE(reader.on_body("age\":\"later\"}}", 2));
  reader.on_end(CallEnd::kComplete, "");
  EXPECT_EQ(reader.record().error, "HTTP 429");
  EXPECT_EQ(reader.record().detail, "later");
  EXPECT_EQ(reader.record().first_s, -1);
}

TEST(AnswerReader, an_answer_that_is_no_stream_is_an_error) {
  AnswerReader reader;
  reader.on_head(200, "application/json");
  EXPECT_FALSE(reader.on_body("{}", 1));
  EXPECT_EQ(reader.record().error, "not a stream");
}

}  // namespace
}  // namespace tandem::loadgen
