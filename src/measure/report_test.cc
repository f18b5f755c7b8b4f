#include "measure/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tandem::measure {
namespace {

using Json = nlohmann::json;

constexpr auto kRecurrence = static_cast<std::size_t>(Stage::kKdaRecurrence);
constexpr auto kHead = static_cast<std::size_t>(Stage::kHead);

// A step of 10 ms: 6 in the recurrence, 3 in the head, 1 elsewhere.
StepTimes ten_ms() {
  StepTimes times;
  times.wall_s = 0.01;
  times.stage_s[kRecurrence] = 0.006;
  times.stage_s[kHead] = 0.003;
  return times;
}

StepCase decode_case(std::int64_t batch, std::int64_t context, double times) {
  StepCase c;
  c.sequences = batch;
  c.context = context;
  c.sample_tokens = batch;
  StepTimes sample = ten_ms();
  sample.wall_s *= times;
  for (double& s : sample.stage_s) s *= times;
  c.samples.assign(3, sample);
  c.work[kRecurrence] = {
      .weight_bytes = 0, .memory_read_bytes = 20e6, .memory_write_bytes = 5e6, .flop = 100e6};
  c.work[kHead] = {.weight_bytes = 30e6, .flop = 300e6};
  c.distinct_experts = 7.5;
  c.even_experts = 8.5;
  c.resident_bytes = 150'000'000;
  c.cache_bytes = 20'000'000;
  return c;
}

// 10 GB/s, 100 GFLOP/s at best.
StepReport report() {
  StepReport report;
  report.bench = "decode";
  report.setting = {.model = "small",
                    .architecture = "SmallForCausalLM",
                    .precision = "default",
                    .backend = "cpu",
                    .threads = 2,
                    .processor = "a processor",
                    .instruction_set = "AVX2",
                    .machine = {{9e9, 8e9, 10e9}, {95e9, 90e9, 100e9}}};
  report.weight_bytes = 100'000'000;
  report.cases = {decode_case(4, 256, 1), decode_case(4, 4096, 1.25)};
  return report;
}

TEST(MeasureReportTest, json_has_rates_and_shares_of_the_best_that_the_machine_did) {
  const Json json = Json::parse(report_json(report()));
  EXPECT_EQ(json["bench"], "decode");
  EXPECT_EQ(json["threads"], 2);
  EXPECT_EQ(json["machine"]["read_bytes_per_s"]["max"], 10e9);
  EXPECT_EQ(json["weight_bytes"], 100'000'000);
  ASSERT_EQ(json["cases"].size(), 2u);
  const Json& first = json["cases"][0];
  EXPECT_EQ(first["batch"], 4);
  EXPECT_EQ(first["context"], 256);
  EXPECT_FALSE(first.contains("prompt"));
  EXPECT_DOUBLE_EQ(first["tokens_per_s"]["median"], 400);
  EXPECT_DOUBLE_EQ(first["wall_s"]["median"], 0.01);
  EXPECT_EQ(first["samples"], 3);
  EXPECT_DOUBLE_EQ(first["read_bytes_per_s"], 5e9);  // 50 MB in 10 ms
  EXPECT_DOUBLE_EQ(first["read_share"], 0.5);
  EXPECT_DOUBLE_EQ(first["flop_share"], 0.4);  // 400 MFLOP in 10 ms
  EXPECT_DOUBLE_EQ(first["bound_share"], 0.5);
  EXPECT_EQ(first["distinct_experts"], 7.5);
  EXPECT_EQ(first["distinct_experts_if_even"], 8.5);
  EXPECT_EQ(first["resident_bytes"], 150'000'000);
  EXPECT_EQ(first["planned_bytes"], 120'000'000);
}

TEST(MeasureReportTest, json_has_every_stage_that_took_time_and_the_rest) {
  const Json first = Json::parse(report_json(report()))["cases"][0];
  ASSERT_EQ(first["stages"].size(), 2u);
  const Json& recurrence = first["stages"][0];
  EXPECT_EQ(recurrence["stage"], "kda recurrence");
  EXPECT_DOUBLE_EQ(recurrence["seconds"], 0.006);
  EXPECT_DOUBLE_EQ(recurrence["time_share"], 0.6);
  EXPECT_EQ(recurrence["memory_read_bytes"], 20e6);
  EXPECT_EQ(recurrence["memory_write_bytes"], 5e6);
  const Json& head = first["stages"][1];
  EXPECT_DOUBLE_EQ(head["read_share"], 1);  // 30 MB in 3 ms
  EXPECT_DOUBLE_EQ(head["flop_share"], 1);
  EXPECT_NEAR(first["other_s"], 0.001, 1e-12);
}

TEST(MeasureReportTest, a_prompt_is_named_by_its_length) {
  StepReport prefill = report();
  prefill.bench = "prefill";
  prefill.cases.resize(1);
  prefill.cases[0].prompt = prefill.cases[0].sample_tokens = 512;
  const Json json = Json::parse(report_json(prefill));
  EXPECT_EQ(json["cases"][0]["prompt"], 512);
  EXPECT_FALSE(json["cases"][0].contains("batch"));
  EXPECT_DOUBLE_EQ(json["cases"][0]["tokens_per_s"]["median"], 51200);
  EXPECT_NE(report_text(prefill).find("prompt 512"), std::string::npos);
}

TEST(MeasureReportTest, text_says_what_a_long_context_costs_and_what_memory_is_beyond_the_plan) {
  const std::string text = report_text(report());
  for (const char* part : {"decode: small (SmallForCausalLM), default precision, cpu kernels, 2",
                           "a processor, AVX2: reads 9.000 GB/s (8.000..10.00)",
                           "batch 4: a step at context 4096 takes 1.25 times one at 256",
                           "150.0       120.0        30.0"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks: " << part;
  }
  EXPECT_EQ(text.find("router"), std::string::npos) << "a stage that took no time";
}

TEST(StepCaseTest, the_typical_step_leaves_the_quarters_at_both_ends_out) {
  StepCase c;
  for (const double times : {100.0, 1.0, 2.0, 0.0, 1.5, 1.5, 50.0, 0.5, 1.0}) {
    c.samples.push_back(ten_ms());
    c.samples.back().wall_s *= times;
    for (double& s : c.samples.back().stage_s) s *= times;
  }
  // Sorted: 0 0.5 | 1 1 1.5 1.5 2 | 50 100.
  const StepTimes typical = c.typical();
  EXPECT_NEAR(typical.wall_s, 0.014, 1e-12);
  EXPECT_NEAR(typical.stage_s[kRecurrence], 0.6 * 0.014, 1e-12);
  EXPECT_NEAR(typical.other_s(), 0.1 * 0.014, 1e-12);
  c.samples.resize(1);
  EXPECT_DOUBLE_EQ(c.typical().wall_s, 1.0);
}

TEST(TokenSourceTest, random_ids_are_of_the_vocabulary_and_differ_by_sequence_and_seed) {
  const TokenSource tokens(1000, 7), other(1000, 8);
  int same_sequence = 0, same_seed = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const TokenId id = tokens.at(3, i);
    EXPECT_GE(id, 0);
    EXPECT_LT(id, 1000);
    EXPECT_EQ(id, tokens.at(3, i));
    same_sequence += id == tokens.at(4, i);
    same_seed += id == other.at(3, i);
  }
  EXPECT_LT(same_sequence, 20);
  EXPECT_LT(same_seed, 20);
}

TEST(TokenSourceTest, a_text_is_read_in_order_and_around_its_end) {
  const TokenSource tokens({5, 6, 7});
  EXPECT_EQ(tokens.at(0, 1), 6);
  EXPECT_EQ(tokens.at(0, 3), 5);
  EXPECT_EQ(tokens.at(1, 4), tokens.at(1, 1));
}

}  // namespace
}  // namespace tandem::measure
