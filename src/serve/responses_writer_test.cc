#include "serve/responses_writer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/fake_exchange.h"
#include "serve/running_answer.h"

namespace tandem {
namespace {

using Json = nlohmann::json;
using Kind = OutputEvent::Kind;

struct Fixture {
  explicit Fixture(bool stream, std::string settings = "{}")
      : exchange(std::make_shared<FakeExchange>()),
        answer(exchange, std::make_unique<ResponsesWriter>(exchange, head(stream, settings), 7),
               1) {
    answer.begin([] {});
  }
  static ResponseHead head(bool stream, const std::string& metadata) {
    ResponseHead head{.id = "resp_a", .created_at = 5, .model = "m"};
    head.request.stream = stream;
    head.request.sampling.temperature = 0.7f;
    head.request.echo = {{"metadata", metadata}};
    return head;
  }
  Json body() const { return Json::parse(exchange->response.value().body); }

  // The data of every event, whose name is its type.
  std::vector<Json> events() const {
    std::vector<Json> out;
    std::string_view rest = exchange->stream;
    while (!rest.empty()) {
      const std::size_t name_end = rest.find("\ndata: ");
      const std::size_t end = rest.find("\n\n");
      EXPECT_TRUE(rest.starts_with("event: ")) << rest;
      out.push_back(Json::parse(rest.substr(name_end + 7, end - name_end - 7)));
      EXPECT_EQ(out.back()["type"], rest.substr(7, name_end - 7));
      EXPECT_EQ(out.back()["sequence_number"], out.size() - 1);
      rest.remove_prefix(end + 2);
    }
    return out;
  }

  std::shared_ptr<FakeExchange> exchange;
  RunningAnswer answer;
};

AnswerResult ended(AnswerEnd end) {
  AnswerResult result{
      .end = end,
      .result = {.reason = end == AnswerEnd::kLength ? FinishReason::kLength : FinishReason::kStop,
                 .usage = {.prompt_tokens = 7, .completion_tokens = 5}}};
  result.result.usage.cache.cached_tokens = 4;
  return result;
}

const std::vector<OutputEvent> kAll = {
    {Kind::kReasoning, "h"},
    {Kind::kReasoning, "m"},
    {Kind::kContent, "a"},
    {Kind::kContent, "\"b"},
    {.kind = Kind::kToolCallBegin, .call = 0, .id = "f:0", .name = "f"},
    {.kind = Kind::kToolCallArguments, .text = "{\"x\":", .call = 0},
    {.kind = Kind::kToolCallArguments, .text = " 1}", .call = 0},
    {.kind = Kind::kToolCallEnd, .call = 0}};

// The output that the deltas alone add up to.
Json joined(const std::vector<Json>& events) {
  Json output = Json::array();
  for (const Json& event : events) {
    const std::string type = event["type"];
    if (type == "response.output_item.added") {
      EXPECT_EQ(event["output_index"], output.size());
      output.push_back(event["item"]);
    } else if (type == "response.content_part.added") {
      output.back()["content"].push_back(event["part"]);
    } else if (type.ends_with(".delta")) {
      Json& item = output.at(event["output_index"].get<std::size_t>());
      EXPECT_EQ(item["id"], event["item_id"]);
      Json& text = item.contains("arguments") ? item["arguments"] : item["content"][0]["text"];
      text = text.get<std::string>() + event["delta"].get<std::string>();
    } else if (type == "response.output_item.done") {
      output.back()["status"] = event["item"]["status"];
      EXPECT_EQ(output.back(), event["item"]);
    }
  }
  return output;
}

TEST(ResponsesWriter, answers_with_an_item_for_each_block) {
  Fixture f(false, R"({"k":"v"})");
  f.answer.on_events(0, kAll, SampledToken{});
  f.answer.on_end(0, ended(AnswerEnd::kToolCalls));
  const Json body = f.body();
  EXPECT_EQ(body["id"], "resp_a");
  EXPECT_EQ(body["object"], "response");
  EXPECT_EQ(body["created_at"], 5);
  EXPECT_EQ(body["status"], "completed");
  EXPECT_EQ(body["metadata"], Json::parse(R"({"k":"v"})"));
  EXPECT_EQ(body["temperature"].dump(), "0.7");
  EXPECT_EQ(body["store"], false);
  EXPECT_TRUE(body["error"].is_null());
  EXPECT_TRUE(body["incomplete_details"].is_null());
  EXPECT_EQ(body["output"], Json::parse(R"([
    {"id":"rs_a0000","type":"reasoning","status":"completed","summary":[],
     "content":[{"type":"reasoning_text","text":"hm"}]},
    {"id":"msg_a0001","type":"message","status":"completed","role":"assistant",
     "content":[{"type":"output_text","text":"a\"b","annotations":[],"logprobs":[]}]},
    {"id":"fc_a0002","type":"function_call","status":"completed","call_id":"f:0","name":"f",
     "arguments":"{\"x\": 1}"}])"));
  EXPECT_EQ(body["usage"], Json::parse(
                               R"({"input_tokens":7,"input_tokens_details":{"cached_tokens":4},
    "output_tokens":5,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":12})"));
}

TEST(ResponsesWriter, a_stream_adds_up_to_the_whole_answer) {
  Fixture whole(false);
  Fixture stream(true);
  for (Fixture* f : {&whole, &stream}) {
    for (const OutputEvent& event : kAll) f->answer.on_events(0, {event}, SampledToken{});
    f->answer.on_end(0, ended(AnswerEnd::kToolCalls));
  }
  const auto events = stream.events();
  EXPECT_EQ(joined(events), whole.body()["output"]);
  EXPECT_EQ(events.back()["response"], whole.body());
  EXPECT_TRUE(stream.exchange->finished);
}

TEST(ResponsesWriter, streams_events_in_legal_order) {
  Fixture f(true);
  f.answer.on_events(0, kAll, SampledToken{});
  f.answer.on_end(0, ended(AnswerEnd::kToolCalls));
  std::vector<std::string> names;
  for (const Json& event : f.events()) {
    names.push_back(event["type"].get<std::string>().substr(std::string("response.").size()));
    if (event.contains("output_index")) names.back() += " " + event["output_index"].dump();
  }
  EXPECT_EQ(names, (std::vector<std::string>{"created",
                                             "in_progress",
                                             "output_item.added 0",
                                             "content_part.added 0",
                                             "reasoning_text.delta 0",
                                             "reasoning_text.delta 0",
                                             "reasoning_text.done 0",
                                             "content_part.done 0",
                                             "output_item.done 0",
                                             "output_item.added 1",
                                             "content_part.added 1",
                                             "output_text.delta 1",
                                             "output_text.delta 1",
                                             "output_text.done 1",
                                             "content_part.done 1",
                                             "output_item.done 1",
                                             "output_item.added 2",
                                             "function_call_arguments.delta 2",
                                             "function_call_arguments.delta 2",
                                             "function_call_arguments.done 2",
                                             "output_item.done 2",
                                             "completed"}));
}

TEST(ResponsesWriter, an_answer_that_was_cut_off_is_incomplete_and_so_is_its_last_item) {
  for (const bool in_call : {false, true}) {
    std::vector<OutputEvent> events(kAll.begin(), kAll.begin() + (in_call ? 6 : 3));
    Fixture whole(false);
    Fixture stream(true);
    for (Fixture* f : {&whole, &stream}) {
      f->answer.on_events(0, events, SampledToken{});
      f->answer.on_end(0, ended(AnswerEnd::kLength));
    }
    const Json body = whole.body();
    EXPECT_EQ(body["status"], "incomplete");
    EXPECT_EQ(body["incomplete_details"]["reason"], "max_output_tokens");
    EXPECT_EQ(body["output"][0]["status"], "completed");
    EXPECT_EQ(body["output"].back()["status"], "incomplete");
    const auto sent = stream.events();
    EXPECT_EQ(sent.back()["type"], "response.incomplete");
    EXPECT_EQ(sent.back()["response"], body);
    EXPECT_EQ(joined(sent), body["output"]);
  }
}

TEST(ResponsesWriter, failures_are_an_error_or_a_failed_response) {
  AnswerResult failed = ended(AnswerEnd::kStop);
  failed.result.reason = FinishReason::kError;
  failed.result.status = {StatusCode::kInternal, "it broke"};
  Fixture whole(false);
  whole.answer.on_end(0, failed);
  EXPECT_EQ(whole.exchange->response->status, 500);
  EXPECT_EQ(whole.body()["error"]["message"], "it broke");
  Fixture stream(true);
  stream.answer.on_events(0, {{Kind::kContent, "half"}}, SampledToken{});
  stream.answer.on_end(0, failed);
  const auto events = stream.events();
  EXPECT_EQ(events[events.size() - 2]["type"], "error");
  EXPECT_EQ(events[events.size() - 2]["message"], "it broke");
  EXPECT_EQ(events.back()["type"], "response.failed");
  EXPECT_EQ(events.back()["response"]["status"], "failed");
  EXPECT_EQ(events.back()["response"]["error"]["message"], "it broke");
  EXPECT_TRUE(stream.exchange->finished);

  AnswerResult cancelled = ended(AnswerEnd::kStop);
  cancelled.result.reason = FinishReason::kCancelled;
  Fixture cut(false);
  cut.answer.on_end(0, cancelled);
  EXPECT_EQ(cut.exchange->response->status, 503);
}

}  // namespace
}  // namespace tandem
