#include "serve/openai_response.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "serve/openai_error.h"

namespace tandem {
namespace {

using Json = nlohmann::json;
using Kind = OutputEvent::Kind;

const ChatHead kHead{"chatcmpl-1", 1700000000, "demo"};

std::unique_ptr<Tokenizer> demo_tokenizer() {
  return std::move(
      Tokenizer::load(std::filesystem::path(TANDEM_SOURCE_DIR) / "models/demo", 4096).value());
}

Json delta(const OutputEvent& event) {
  return Json::parse(delta_chunk(kHead, 2, event, {}))["choices"][0]["delta"];
}

TEST(OpenAiResponse, a_body_has_openais_shape) {
  ChatChoice choice;
  choice.answer.content = "7703";
  choice.answer.reasoning = "adding";
  choice.end = {"stop", "END", std::nullopt};
  const AnswerUsage usage{.prompt_tokens = 10,
                          .cache = {.cached_tokens = 4,
                                    .replayed_tokens = 2,
                                    .text_tokens = 8,
                                    .miss = CacheMiss::kDiffers},
                          .completion_tokens = 5,
                          .reasoning_tokens = 2,
                          .prefill_ms = 20,
                          .decode_ms = 10};
  Json body = Json::parse(completion_body(kHead, std::span(&choice, 1), usage, {}));
  EXPECT_EQ(body["timings"]["prefill_tokens_per_s"], 300);
  body.erase("timings");
  EXPECT_EQ(body, Json::parse(R"({"id":"chatcmpl-1","object":"chat.completion","created":1700000000,
    "model":"demo","choices":[{"index":0,"message":{"role":"assistant","content":"7703",
    "reasoning_content":"adding"},"logprobs":null,"finish_reason":"stop",
    "matched_stop":"END"}],
    "usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,
    "prompt_tokens_details":{"cached_tokens":4,"replayed_tokens":2,"cache_miss":"differs",
    "differs_at":8},
    "completion_tokens_details":{"reasoning_tokens":2}}})"));
}

TEST(OpenAiResponse, a_piece_of_text_is_a_chunk_of_its_own) {
  const ChatHead head{"chatcmpl-\"1\"", 1700000000, "de\\mo"};
  for (const auto& [kind, field] :
       {std::pair{Kind::kContent, "content"}, std::pair{Kind::kReasoning, "reasoning_content"}}) {
    const Json chunk =
        Json::parse(delta_chunk(head, 2, {kind, "a \"b\" {}\\\n\x01 \xc3\xa4 \xff"}, {}));
    EXPECT_EQ(chunk, Json({{"id", head.id},
                           {"object", "chat.completion.chunk"},
                           {"created", head.created},
                           {"model", head.model},
                           {"choices",
                            {{{"index", 2},
                              {"delta", {{field, "a \"b\" {}\\\n\x01 \xc3\xa4 \xef\xbf\xbd"}}},
                              {"finish_reason", nullptr}}}}}));
  }
}

TEST(OpenAiResponse, says_where_a_prompt_differs_only_if_it_does) {
  const auto details = [](CacheMiss miss) {
    const AnswerUsage usage{.cache = {.text_tokens = 8, .miss = miss}};
    return Json::parse(usage_chunk(kHead, usage))["usage"]["prompt_tokens_details"];
  };
  for (const auto& [miss, word] : {std::pair{CacheMiss::kNone, "none"},
                                   {CacheMiss::kNew, "new"},
                                   {CacheMiss::kEvicted, "evicted"},
                                   {CacheMiss::kBranch, "branch"}}) {
    EXPECT_EQ(details(miss)["cache_miss"], word);
    EXPECT_FALSE(details(miss).contains("differs_at"));
  }
  EXPECT_EQ(details(CacheMiss::kDiffers)["differs_at"], 8);
}

TEST(OpenAiResponse, a_message_that_only_calls_has_null_content) {
  ChatChoice choice;
  choice.answer.tool_calls = {{"f:0", "f", "{}"}};
  choice.end = {"tool_calls", "", 7};
  const Json body = Json::parse(completion_body(kHead, std::span(&choice, 1), {}, {}));
  EXPECT_EQ(body["choices"][0]["message"],
            Json::parse(R"({"role":"assistant","content":null,"tool_calls":[{"id":"f:0",
              "type":"function","function":{"name":"f","arguments":"{}"}}]})"));
  EXPECT_EQ(body["choices"][0]["matched_stop"], 7);
}

TEST(OpenAiResponse, an_empty_answer_is_an_empty_string) {
  ChatChoice choice;
  const Json body = Json::parse(completion_body(kHead, std::span(&choice, 1), {}, {}));
  EXPECT_EQ(body["choices"][0]["message"], Json::parse(R"({"role":"assistant","content":""})"));
}

TEST(OpenAiResponse, chunks_have_one_choice_and_no_null_in_deltas) {
  EXPECT_EQ(Json::parse(role_chunk(kHead, 2)),
            Json::parse(R"({"id":"chatcmpl-1","object":"chat.completion.chunk",
              "created":1700000000,"model":"demo","choices":[{"index":2,
              "delta":{"role":"assistant","content":""},"finish_reason":null}]})"));
  EXPECT_EQ(delta({Kind::kReasoning, "hm"}), Json::parse(R"({"reasoning_content":"hm"})"));
  EXPECT_EQ(delta({Kind::kContent, "hi"}), Json::parse(R"({"content":"hi"})"));
  EXPECT_EQ(delta({Kind::kReasoningWasContent, "all"}), Json::parse(R"({"content":"all"})"));
  EXPECT_EQ(delta({.kind = Kind::kToolCallBegin, .call = 1, .id = "f:1", .name = "f"}),
            Json::parse(R"({"tool_calls":[{"index":1,"id":"f:1","type":"function",
              "function":{"name":"f","arguments":""}}]})"));
  EXPECT_EQ(delta({.kind = Kind::kToolCallArguments, .text = "{", .call = 1}),
            Json::parse(R"({"tool_calls":[{"index":1,"function":{"arguments":"{"}}]})"));
  EXPECT_EQ(delta_chunk(kHead, 0, {.kind = Kind::kToolCallEnd, .call = 1}, {}), "");
  const Json end = Json::parse(end_chunk(kHead, 1, {.finish_reason = "length"}, {}));
  EXPECT_EQ(
      end["choices"],
      Json::parse(R"([{"index":1,"delta":{},"finish_reason":"length","matched_stop":null}])"));
  EXPECT_EQ(Json::parse(usage_chunk(kHead, {.prompt_tokens = 3}))["choices"], Json::array());
}

TEST(OpenAiResponse, log_probs_spell_tokens_and_their_bytes) {
  const auto tokenizer = demo_tokenizer();
  const TokenId letter = tokenizer->encode_plain("a").front();
  // A byte that begins a character of several: no text by itself.
  const TokenId half = tokenizer->encode_plain("\xF0\x9F\x98\x80").front();
  const std::string_view half_bytes = tokenizer->token_bytes(half);
  const SampledToken token{.id = half, .logprob = -0.5f, .top = {{letter, -INFINITY}}};
  const Json chunk =
      Json::parse(delta_chunk(kHead, 0, {Kind::kContent, "x"},
                              {.logprobs = tokenizer.get(), .tokens = std::span(&token, 1)}));
  const Json entry = chunk["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(entry["logprob"], -0.5);
  EXPECT_EQ(entry["bytes"].size(), half_bytes.size());
  EXPECT_EQ(entry["bytes"][0], static_cast<unsigned char>(half_bytes[0]));
  EXPECT_EQ(entry["token"], "\xEF\xBF\xBD");
  EXPECT_EQ(entry["top_logprobs"],
            Json::parse(R"([{"token":"a","logprob":-9999.0,"bytes":[97]}])"));
}

TEST(OpenAiError, has_a_type_by_status_and_names_the_field) {
  EXPECT_EQ(Json::parse(error_body(Status{StatusCode::kInvalidArgument, "expected 1", "n"})),
            Json::parse(R"({"error":{"message":"n: expected 1","type":"invalid_request_error",
              "param":"n","code":null}})"));
  EXPECT_EQ(Json::parse(error_body({StatusCode::kNotFound, "model: no", "model"}, "c")),
            Json::parse(R"({"error":{"message":"model: no","type":"not_found_error",
              "param":"model","code":"c"}})"));
  const auto type = [](int status) {
    return Json::parse(error_body(status, "m"))["error"]["type"].get<std::string>();
  };
  EXPECT_EQ(type(413), "invalid_request_error");
  EXPECT_EQ(type(429), "rate_limit_error");
  EXPECT_EQ(type(500), "server_error");
  EXPECT_EQ(type(501), "not_supported_error");
  EXPECT_EQ(type(503), "service_unavailable");
}

TEST(OpenAiError, says_when_to_try_again) {
  for (const int status : {429, 503}) {
    const HttpResponse response = error_response(status, "busy");
    ASSERT_EQ(response.headers.size(), 1u);
    EXPECT_EQ(response.headers[0].name, "Retry-After");
  }
  EXPECT_TRUE(error_response(400, "no").headers.empty());
}

TEST(OpenAiError, shortens_long_messages_and_repairs_cut_characters) {
  std::string text(499, 'a');
  text += "\xF0\x9F\x98\x80";
  const Json body = Json::parse(error_body(400, text));
  EXPECT_LT(body["error"]["message"].get<std::string>().size(), 520u);
}

}  // namespace
}  // namespace tandem
