#include "serve/chat_writer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/fake_exchange.h"
#include "serve/running_answer.h"

namespace tandem {
namespace {

using Json = nlohmann::json;
using Kind = OutputEvent::Kind;

struct Fixture {
  explicit Fixture(ChatWriterOptions options)
      : exchange(std::make_shared<FakeExchange>()),
        answer(exchange, std::make_unique<ChatWriter>(exchange, options), options.choices) {}
  void begin() {
    answer.begin([this] { ++cancelled; });
  }
  Json body() const { return Json::parse(exchange->response.value().body); }

  // The JSON of every frame; "[DONE]" as a string.
  std::vector<Json> frames() const {
    std::vector<Json> out;
    std::string_view rest = exchange->stream;
    while (!rest.empty()) {
      const std::size_t end = rest.find("\n\n");
      EXPECT_TRUE(rest.starts_with("data: ")) << rest;
      const std::string text(rest.substr(6, end - 6));
      out.push_back(text == "[DONE]" ? Json(text) : Json::parse(text));
      rest.remove_prefix(end + 2);
    }
    return out;
  }

  std::shared_ptr<FakeExchange> exchange;
  RunningAnswer answer;
  int cancelled = 0;
};

AnswerResult ended(AnswerEnd end, std::int64_t tokens) {
  return {.end = end,
          .result = {.reason = FinishReason::kStop,
                     .usage = {.prompt_tokens = 7, .completion_tokens = tokens}}};
}

AnswerResult failed() {
  return {.end = AnswerEnd::kStop,
          .result = {.reason = FinishReason::kError,
                     .status = {StatusCode::kInternal, "it broke"},
                     .usage = {}}};
}

TEST(ChatWriter, joins_the_events_of_each_choice) {
  Fixture f({.choices = 2, .prompt_tokens = 7});
  f.begin();
  f.answer.on_events(1, {{Kind::kContent, "b"}}, SampledToken{});
  f.answer.on_events(0, {{Kind::kReasoning, "hm"}}, SampledToken{});
  f.answer.on_events(0, {{Kind::kContent, "a"}}, SampledToken{});
  f.answer.on_events(0, {{Kind::kContent, "!"}}, std::nullopt);
  f.answer.on_end(0, ended(AnswerEnd::kStop, 2));
  EXPECT_FALSE(f.exchange->response);
  f.answer.on_end(1, ended(AnswerEnd::kLength, 1));
  const Json body = f.body();
  EXPECT_EQ(body["choices"][0]["message"],
            Json::parse(R"({"role":"assistant","content":"a!","reasoning_content":"hm"})"));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["choices"][1]["message"]["content"], "b");
  EXPECT_EQ(body["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 7);
  EXPECT_EQ(body["usage"]["completion_tokens"], 3);
  EXPECT_EQ(body["usage"]["completion_tokens_details"]["reasoning_tokens"], 1);
}

TEST(ChatWriter, counts_the_cached_tokens_of_the_first_choice_only) {
  Fixture f({.choices = 2, .prompt_tokens = 7});
  f.begin();
  AnswerResult first = ended(AnswerEnd::kStop, 1);
  AnswerResult second = first;
  first.result.usage.cache.cached_tokens = 3;
  second.result.usage.cache.cached_tokens = 6;
  f.answer.on_end(1, second);
  f.answer.on_end(0, first);
  EXPECT_EQ(f.body()["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
}

TEST(ChatWriter, streams_role_deltas_end_usage_and_done_in_this_order) {
  Fixture f({.choices = 1, .prompt_tokens = 7, .stream = true, .include_usage = true});
  f.begin();
  f.answer.on_events(0, {{Kind::kReasoning, "hm"}}, SampledToken{});
  f.answer.on_events(0, {}, SampledToken{});
  f.answer.on_events(0,
                     {{Kind::kContent, "a"},
                      {.kind = Kind::kToolCallBegin, .call = 0, .id = "f:0", .name = "f"},
                      {.kind = Kind::kToolCallArguments, .text = "{}", .call = 0},
                      {.kind = Kind::kToolCallEnd, .call = 0}},
                     SampledToken{});
  f.answer.on_end(0, ended(AnswerEnd::kToolCalls, 3));
  EXPECT_EQ(f.exchange->stream_head->content_type, "text/event-stream");
  EXPECT_TRUE(f.exchange->finished);
  const auto frames = f.frames();
  ASSERT_EQ(frames.size(), 8u);
  const auto delta = [&](std::size_t i) { return frames[i]["choices"][0]["delta"]; };
  EXPECT_EQ(delta(0), Json::parse(R"({"role":"assistant","content":""})"));
  EXPECT_EQ(delta(1), Json::parse(R"({"reasoning_content":"hm"})"));
  EXPECT_EQ(delta(2), Json::parse(R"({"content":"a"})"));
  EXPECT_EQ(delta(3)["tool_calls"][0]["function"]["arguments"], "");
  EXPECT_EQ(delta(4)["tool_calls"][0]["function"]["arguments"], "{}");
  EXPECT_EQ(delta(5), Json::object());
  EXPECT_EQ(frames[5]["choices"][0]["finish_reason"], "tool_calls");
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_TRUE(frames[i]["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(frames[6]["choices"], Json::array());
  EXPECT_EQ(frames[6]["usage"]["total_tokens"], 10);
  EXPECT_EQ(frames[7], "[DONE]");
}

TEST(ChatWriter, log_probs_of_a_stream_are_those_of_every_token_in_order) {
  const auto tokenizer =
      Tokenizer::load(std::filesystem::path(TANDEM_SOURCE_DIR) / "models/demo", 4096).value();
  Fixture f({.choices = 1, .stream = true, .extras = {.logprobs = tokenizer.get()}});
  f.begin();
  f.answer.on_events(0, {}, SampledToken{.id = 1, .logprob = -1, .top = {}});
  f.answer.on_events(0, {{Kind::kContent, "a"}, {Kind::kContent, "b"}},
                     SampledToken{.id = 2, .logprob = -2, .top = {}});
  f.answer.on_events(0, {}, SampledToken{.id = 3, .logprob = -3, .top = {}});
  f.answer.on_end(0, ended(AnswerEnd::kStop, 3));
  std::vector<double> logprobs;
  for (const Json& frame : f.frames()) {
    if (!frame.is_object()) continue;
    for (const Json& entry : frame["choices"][0].value("/logprobs/content"_json_pointer, Json())) {
      logprobs.push_back(entry["logprob"]);
    }
  }
  EXPECT_EQ(logprobs, (std::vector<double>{-1, -2, -3}));
}

TEST(ChatWriter, what_comes_before_the_beginning_waits_for_it) {
  Fixture f({.choices = 1, .stream = true});
  f.answer.on_events(0, {{Kind::kContent, "early"}}, SampledToken{});
  f.answer.on_end(0, ended(AnswerEnd::kStop, 1));
  EXPECT_TRUE(f.exchange->stream.empty());
  f.begin();
  const auto frames = f.frames();
  ASSERT_EQ(frames.size(), 4u);
  EXPECT_EQ(frames[0]["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(frames[1]["choices"][0]["delta"]["content"], "early");
}

TEST(ChatWriter, a_refused_choice_refuses_all) {
  Fixture f({.choices = 2});
  f.answer.on_events(0, {{Kind::kContent, "early"}}, SampledToken{});
  f.answer.refuse({.status = 429});
  f.answer.on_end(0, ended(AnswerEnd::kStop, 1));
  EXPECT_EQ(f.exchange->response->status, 429);
}

TEST(ChatWriter, a_choice_that_fails_ends_and_cancels_all) {
  Fixture whole({.choices = 2});
  whole.begin();
  whole.answer.on_end(0, failed());
  EXPECT_EQ(whole.exchange->response->status, 500);
  EXPECT_EQ(whole.cancelled, 1);
  whole.exchange->response.reset();
  whole.answer.on_end(1, ended(AnswerEnd::kStop, 1));
  EXPECT_FALSE(whole.exchange->response);

  Fixture stream({.choices = 1, .stream = true});
  stream.begin();
  stream.answer.on_end(0, failed());
  const auto frames = stream.frames();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[1]["error"]["message"], "it broke");
  EXPECT_EQ(frames[2], "[DONE]");
  EXPECT_TRUE(stream.exchange->finished);
}

TEST(ChatWriter, an_answer_that_the_server_ended_says_abort) {
  Fixture f({.choices = 1});
  f.begin();
  f.answer.on_events(0, {{Kind::kContent, "half"}}, SampledToken{});
  AnswerResult result = ended(AnswerEnd::kStop, 1);
  result.result.reason = FinishReason::kCancelled;
  f.answer.on_end(0, result);
  EXPECT_EQ(f.body()["choices"][0]["finish_reason"], "abort");
  EXPECT_EQ(f.body()["choices"][0]["message"]["content"], "half");
}

TEST(ChatWriter, thinking_goes_where_the_client_wants_it) {
  for (const auto& [where, content] :
       {std::pair{ReasoningText::kInContent, "hm!a"}, std::pair{ReasoningText::kLeftOut, "a"}}) {
    Fixture f({.choices = 1, .reasoning = where});
    f.begin();
    f.answer.on_events(0, {{Kind::kReasoning, "hm!"}}, SampledToken{});
    f.answer.on_events(0, {{Kind::kContent, "a"}}, SampledToken{});
    f.answer.on_end(0, ended(AnswerEnd::kStop, 2));
    const Json message = f.body()["choices"][0]["message"];
    EXPECT_EQ(message["content"], content);
    EXPECT_FALSE(message.contains("reasoning_content"));
    EXPECT_EQ(f.body()["usage"]["completion_tokens_details"]["reasoning_tokens"], 1);
  }
}

TEST(ChatWriter, token_ids_of_a_stream_add_up_to_those_of_the_whole) {
  const auto prompt = std::make_shared<const std::vector<TokenId>>(std::vector<TokenId>{7, 8});
  const ChatExtras extras{.token_ids = true, .meta_info = true, .prompt_ids = prompt};
  for (const bool stream : {false, true}) {
    Fixture f({.choices = 1, .stream = stream, .continuous_usage = true, .extras = extras});
    f.begin();
    f.answer.on_events(0, {}, SampledToken{.id = 1});
    f.answer.on_events(0, {{Kind::kContent, "a"}}, SampledToken{.id = 2});
    f.answer.on_events(0, {}, SampledToken{.id = 3});
    f.answer.on_end(0, ended(AnswerEnd::kStop, 3));
    if (!stream) {
      EXPECT_EQ(f.body()["choices"][0]["token_ids"], Json({1, 2, 3}));
      EXPECT_EQ(f.body()["prompt_token_ids"], Json({7, 8}));
      EXPECT_EQ(f.body()["choices"][0]["meta_info"]["completion_tokens"], 3);
      continue;
    }
    const auto frames = f.frames();
    ASSERT_EQ(frames.size(), 4u);
    EXPECT_EQ(frames[0]["prompt_token_ids"], Json({7, 8}));
    EXPECT_EQ(frames[1]["choices"][0]["token_ids"], Json({1, 2}));
    EXPECT_EQ(frames[2]["choices"][0]["token_ids"], Json({3}));
    EXPECT_EQ(frames[0]["usage"]["completion_tokens"], 0);
    EXPECT_EQ(frames[1]["usage"]["completion_tokens"], 2);
    EXPECT_EQ(frames[2]["choices"][0]["meta_info"]["finish_reason"]["type"], "stop");
  }
}

}  // namespace
}  // namespace tandem
