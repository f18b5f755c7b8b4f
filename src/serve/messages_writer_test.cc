#include "serve/messages_writer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/fake_exchange.h"
#include "serve/messages_error.h"
#include "serve/running_answer.h"

namespace tandem {
namespace {

using Json = nlohmann::json;
using Kind = OutputEvent::Kind;

struct Event {
  std::string name;
  Json data;
};

struct Fixture {
  explicit Fixture(bool stream)
      : exchange(std::make_shared<FakeExchange>()),
        answer(
            exchange,
            std::make_unique<MessagesWriter>(exchange, MessagesWriterOptions{.head = {"msg_1", "m"},
                                                                             .prompt_tokens = 7,
                                                                             .stream = stream}),
            1) {
    answer.begin([] {});
  }
  Json body() const { return Json::parse(exchange->response.value().body); }

  std::vector<Event> events() const {
    std::vector<Event> out;
    std::string_view rest = exchange->stream;
    while (!rest.empty()) {
      const std::size_t name_end = rest.find("\ndata: ");
      const std::size_t end = rest.find("\n\n");
      EXPECT_TRUE(rest.starts_with("event: ")) << rest;
      out.push_back({std::string(rest.substr(7, name_end - 7)),
                     Json::parse(rest.substr(name_end + 7, end - name_end - 7))});
      EXPECT_EQ(out.back().name, out.back().data["type"]);
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
    {.kind = Kind::kToolCallArguments, .text = " 1.50}", .call = 0},
    {.kind = Kind::kToolCallEnd, .call = 0},
    {.kind = Kind::kToolCallBegin, .call = 1, .id = "g:1", .name = "g"},
    {.kind = Kind::kToolCallEnd, .call = 1}};

// As the client packages do.
Json joined(const std::vector<Event>& events) {
  Json message;
  std::vector<std::string> inputs;
  for (const auto& [name, data] : events) {
    if (name == "message_start") {
      message = data["message"];
    } else if (name == "content_block_start") {
      EXPECT_EQ(data["index"], message["content"].size());
      message["content"].push_back(data["content_block"]);
      inputs.emplace_back();
    } else if (name == "content_block_delta") {
      Json& block = message["content"].at(data["index"].get<std::size_t>());
      const Json& delta = data["delta"];
      for (const char* key : {"thinking", "signature", "text"}) {
        if (delta.contains(key))
          block[key] = block[key].get<std::string>() + delta[key].get<std::string>();
      }
      if (delta.contains("partial_json")) inputs.back() += delta["partial_json"];
    } else if (name == "content_block_stop" && !inputs.back().empty()) {
      message["content"].back()["input"] = Json::parse(inputs.back());
    } else if (name == "message_delta") {
      message.update(data["delta"]);
      message["usage"] = data["usage"];
    }
  }
  return message;
}

TEST(MessagesWriter, answers_with_blocks_in_order_and_parsed_input) {
  Fixture f(false);
  f.answer.on_events(0, kAll, SampledToken{});
  f.answer.on_end(0, ended(AnswerEnd::kToolCalls));
  EXPECT_EQ(f.body(), Json::parse(R"({"id":"msg_1","type":"message","role":"assistant","model":"m",
    "content":[{"type":"thinking","thinking":"hm","signature":"unsigned"},
               {"type":"text","text":"a\"b"},
               {"type":"tool_use","id":"f:0","name":"f","input":{"x":1.5}},
               {"type":"tool_use","id":"g:1","name":"g","input":{}}],
    "stop_reason":"tool_use","stop_sequence":null,
    "usage":{"input_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,
             "output_tokens":5}})"));
}

TEST(MessagesWriter, a_stream_adds_up_to_the_whole_answer) {
  Fixture whole(false);
  Fixture stream(true);
  for (Fixture* f : {&whole, &stream}) {
    for (const OutputEvent& event : kAll) f->answer.on_events(0, {event}, SampledToken{});
    f->answer.on_end(0, ended(AnswerEnd::kToolCalls));
  }
  EXPECT_EQ(joined(stream.events()), whole.body());
  EXPECT_TRUE(stream.exchange->finished);
}

TEST(MessagesWriter, streams_events_in_legal_order) {
  Fixture f(true);
  f.answer.on_events(0, kAll, SampledToken{});
  f.answer.on_end(0, ended(AnswerEnd::kToolCalls));
  std::vector<std::string> names;
  for (const auto& [name, data] : f.events()) {
    names.push_back(name);
    if (data.contains("index")) names.back() += " " + data["index"].dump();
    if (data.contains("delta") && data["delta"].contains("type")) {
      names.back() += " " + data["delta"]["type"].get<std::string>();
    }
  }
  EXPECT_EQ(
      names,
      (std::vector<std::string>{
          "message_start", "ping", "content_block_start 0", "content_block_delta 0 thinking_delta",
          "content_block_delta 0 thinking_delta", "content_block_delta 0 signature_delta",
          "content_block_stop 0", "content_block_start 1", "content_block_delta 1 text_delta",
          "content_block_delta 1 text_delta", "content_block_stop 1", "content_block_start 2",
          "content_block_delta 2 input_json_delta", "content_block_delta 2 input_json_delta",
          "content_block_stop 2", "content_block_start 3", "content_block_stop 3", "message_delta",
          "message_stop"}));
}

TEST(MessagesWriter, says_why_the_answer_ended) {
  const auto reason = [](AnswerResult result) {
    Fixture f(false);
    f.answer.on_events(0, {{Kind::kContent, "a"}}, SampledToken{});
    f.answer.on_end(0, result);
    return f.body()["stop_reason"].get<std::string>() + " " + f.body()["stop_sequence"].dump();
  };
  EXPECT_EQ(reason(ended(AnswerEnd::kStop)), "end_turn null");
  EXPECT_EQ(reason(ended(AnswerEnd::kLength)), "max_tokens null");
  AnswerResult stopped = ended(AnswerEnd::kStop);
  stopped.stop_string = "###";
  EXPECT_EQ(reason(stopped), "stop_sequence \"###\"");
}

TEST(MessagesWriter, a_call_that_was_cut_off_is_left_out_when_whole_and_closed_in_a_stream) {
  const std::vector<OutputEvent> events = {
      {Kind::kContent, "a"},
      {.kind = Kind::kToolCallBegin, .call = 0, .id = "f:0", .name = "f"},
      {.kind = Kind::kToolCallArguments, .text = "{\"x", .call = 0}};
  Fixture whole(false);
  whole.answer.on_events(0, events, SampledToken{});
  whole.answer.on_end(0, ended(AnswerEnd::kLength));
  EXPECT_EQ(whole.body()["content"], Json::parse(R"([{"type":"text","text":"a"}])"));
  Fixture stream(true);
  stream.answer.on_events(0, events, SampledToken{});
  stream.answer.on_end(0, ended(AnswerEnd::kLength));
  const auto sent = stream.events();
  EXPECT_EQ(sent[sent.size() - 3].name, "content_block_stop");
  EXPECT_EQ(sent[sent.size() - 2].data["delta"]["stop_reason"], "max_tokens");
}

TEST(MessagesWriter, arguments_that_are_no_object_are_handed_on_as_text) {
  const std::string deep(300, '[');
  for (const std::string& arguments :
       {std::string("7"), std::string("{\"x\":"), "{\"x\":" + deep}) {
    Fixture f(false);
    f.answer.on_events(0,
                       {{.kind = Kind::kToolCallBegin, .call = 0, .id = "f:0", .name = "f"},
                        {.kind = Kind::kToolCallArguments, .text = arguments, .call = 0},
                        {.kind = Kind::kToolCallEnd, .call = 0}},
                       SampledToken{});
    f.answer.on_end(0, ended(AnswerEnd::kToolCalls));
    EXPECT_EQ(f.body()["content"][0]["input"], Json({{"invalid_arguments", arguments}}));
  }
}

TEST(MessagesWriter, failures_have_anthropics_shape) {
  AnswerResult failed = ended(AnswerEnd::kStop);
  failed.result.reason = FinishReason::kError;
  failed.result.status = {StatusCode::kInternal, "it broke"};
  Fixture whole(false);
  whole.answer.on_end(0, failed);
  EXPECT_EQ(whole.exchange->response->status, 500);
  EXPECT_EQ(whole.body(),
            Json::parse(R"({"type":"error","error":{"type":"api_error","message":"it broke"}})"));
  Fixture stream(true);
  stream.answer.on_end(0, failed);
  EXPECT_EQ(stream.events().back().name, "error");
  EXPECT_TRUE(stream.exchange->finished);

  AnswerResult cancelled = ended(AnswerEnd::kStop);
  cancelled.result.reason = FinishReason::kCancelled;
  Fixture cut(false);
  cut.answer.on_end(0, cancelled);
  EXPECT_EQ(cut.exchange->response->status, 529);
  EXPECT_EQ(cut.body()["error"]["type"], "overloaded_error");
}

TEST(MessagesError, spells_fields_and_statuses_as_anthropic_does) {
  const Status error =
      messages_error({StatusCode::kInvalidArgument, "tools[1].function.parameters: no such type",
                      "tools[1].function.parameters"});
  EXPECT_EQ(error.field, "tools.1.input_schema");
  EXPECT_EQ(error.message, "tools.1.input_schema: no such type");
  EXPECT_EQ(messages_error({StatusCode::kInvalidArgument, "too long", "messages"}).message,
            "too long");
  const auto type = [](StatusCode code) {
    const HttpResponse response = messages_error_format(Status{code, "x"});
    return std::to_string(response.status) + " " +
           Json::parse(response.body)["error"]["type"].get<std::string>();
  };
  EXPECT_EQ(type(StatusCode::kInvalidArgument), "400 invalid_request_error");
  EXPECT_EQ(type(StatusCode::kNotFound), "404 not_found_error");
  EXPECT_EQ(type(StatusCode::kResourceExhausted), "429 rate_limit_error");
  EXPECT_EQ(type(StatusCode::kUnavailable), "529 overloaded_error");
  EXPECT_EQ(type(StatusCode::kInternal), "500 api_error");
}

}  // namespace
}  // namespace tandem
