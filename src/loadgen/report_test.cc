#include "loadgen/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tandem::loadgen {
namespace {

using Json = nlohmann::json;

RequestRecord answered(double due_s, double first_s) {
  return {.due_s = due_s,
          .sent_s = due_s + 0.001,
          .first_s = first_s,
          .last_s = first_s + 0.04,
          .end_s = first_s + 0.05,
          .gaps_ms = {10, 30},
          .prompt_tokens = 20,
          .completion_tokens = 5,
          .cached_tokens = 15};
}
RequestRecord failed(const std::string& kind, const std::string& detail) {
  return {.first_s = 0.001, .end_s = 9, .gaps_ms = {}, .error = kind, .detail = detail};
}

LoadRunResult some() {
  return {.requests = {answered(0, 0.1), failed("HTTP 500", "<boom> & \"more\""), answered(1, 1.2),
                       failed("cut off", ""), failed("HTTP 500", "other")},
          .wall_s = 2,
          .clock_lag_ms = {0.1, 0.2}};
}

TEST(Report, counts_whole_answers_only_and_from_when_they_were_due) {
  const Json json = Json::parse(report_json(summarise(some(), "t", "l")));
  EXPECT_EQ(json["requests"], 5);
  EXPECT_EQ(json["answered"], 2);
  EXPECT_EQ(json["requests_per_s"], 1);
  EXPECT_EQ(json["first_token_ms"]["count"], 2);
  EXPECT_NEAR(json["first_token_ms"]["max"].get<double>(), 200, 1e-6);
  EXPECT_NEAR(json["whole_answer_ms"]["p50"].get<double>(), 150, 1e-6);
  EXPECT_EQ(json["between_pieces_ms"]["count"], 4);
  EXPECT_NEAR(json["per_output_token_ms"]["mean"].get<double>(), 10, 1e-6);  // 40 ms, 4 gaps
  EXPECT_EQ(json["completion_tokens_per_s"], 5);
  EXPECT_EQ(json["prompt_tokens"], 40);
  EXPECT_EQ(json["cached_tokens"], 30);
  EXPECT_EQ(json["pieces"], 6);
  EXPECT_EQ(json["errors"][0],
            Json({{"kind", "HTTP 500"}, {"count", 2}, {"first", "<boom> & \"more\""}}));
  EXPECT_EQ(json["errors"][1]["kind"], "cut off");
  EXPECT_NEAR(json["send_lag_ms"]["p50"].get<double>(), 0, 1e-6);
  EXPECT_NEAR(json["send_lag_ms"]["max"].get<double>(), 1, 1e-6);
}

TEST(Report, what_nobody_measured_is_null_and_no_panel) {
  LoadRunResult result = some();
  for (RequestRecord& request : result.requests) request.completion_tokens = -1;
  const LoadReport report = summarise(result, "t", "l");
  const Json json = Json::parse(report_json(report));
  EXPECT_TRUE(json["per_output_token_ms"].is_null());
  EXPECT_TRUE(json["completion_tokens"].is_null());
  EXPECT_TRUE(json["completion_tokens_per_s"].is_null());
  EXPECT_EQ(report_svg(report).find("per output token"), std::string::npos);
  EXPECT_NE(report_text(report).find("does not count tokens"), std::string::npos);
}

TEST(Report, is_a_table_for_people) {
  const std::string text = report_text(summarise(some(), "demo at http://x:1", "synthetic"));
  EXPECT_NE(text.find("demo at http://x:1\nsynthetic\n2 of 5 requests answered in 2.00 s\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("first token                   100       200       200       200       150"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("40 in all, 30 of them cached (75.0 %)"), std::string::npos) << text;
  EXPECT_NE(text.find("error: HTTP 500                 2   <boom> & \"more\""), std::string::npos)
      << text;
  EXPECT_EQ(text.find("note:"), std::string::npos);
}

TEST(Report, says_when_the_client_itself_was_late) {
  LoadRunResult result = some();
  result.clock_lag_ms = {0, 80};
  EXPECT_NE(report_text(summarise(result, "t", "l")).find("its clock by 80.0 ms"),
            std::string::npos);
}

TEST(Report, of_a_run_without_answers_stands_in_every_form) {
  const LoadReport report =
      summarise({.requests = {failed("no connection", "refused")}, .wall_s = 0}, "t", "l");
  EXPECT_NE(report_text(report).find("0 of 1 requests answered"), std::string::npos);
  EXPECT_TRUE(Json::parse(report_json(report))["first_token_ms"].is_null());
  EXPECT_NE(report_svg(report).find("errors: 1 no connection"), std::string::npos);
}

TEST(ReportSvg, escapes_what_others_named) {
  const std::string svg = report_svg(summarise(some(), "a<b>&c", "l"));
  EXPECT_NE(svg.find("a&lt;b&gt;&amp;c"), std::string::npos);
  EXPECT_NE(svg.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

// A long tail, equal samples and tiny ones must all be drawn inside the picture.
TEST(ReportSvg, keeps_every_curve_inside_its_panel) {
  for (const auto& gaps : std::vector<std::vector<double>>{
           {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 900}, {0, 0, 0}, {5}, {0.0001, 4000}}) {
    LoadRunResult result{.requests = {answered(0, 0.1)}, .wall_s = 1};
    result.requests[0].gaps_ms = gaps;
    const std::string svg = report_svg(summarise(result, "t", "l"));
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
    EXPECT_EQ(svg.find("M-"), std::string::npos);
    EXPECT_EQ(svg.find("H-"), std::string::npos);
    EXPECT_EQ(svg.find("V-"), std::string::npos);
  }
}

}  // namespace
}  // namespace tandem::loadgen
