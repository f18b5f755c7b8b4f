#include "serve/openai_request.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem {
namespace {

const std::string kHello = R"("messages":[{"role":"user","content":"hi"}])";

// A body with the messages above and more fields.
std::string with(const std::string& fields) {
  return "{" + kHello + (fields.empty() ? "" : ",") + fields + "}";
}

std::string with_message(const std::string& message) { return R"({"messages":[)" + message + "]}"; }

Result<ChatCompletionRequest> parse(const std::string& body) {
  return parse_chat_completion(body, {.temperature = 0.7f, .top_p = 0.9f});
}

ChatCompletionRequest accepted(const std::string& body) {
  auto request = parse(body);
  EXPECT_TRUE(request) << body << "\n" << request.error().message;
  return request ? *request : ChatCompletionRequest{};
}

constexpr const char* kTimer =
    R"({"type":"function","function":{"name":"set_timer","parameters":{"b":1,"a":1.50}}})";

TEST(ChatCompletionRequest, leaves_defaults_where_the_body_says_nothing) {
  for (const std::string& body :
       {with(""), with(R"("temperature":null,"n":null,"stop":null,"tools":null,"stream":null)")}) {
    const auto request = accepted(body);
    EXPECT_EQ(request.model, "");
    EXPECT_EQ(request.sampling.temperature, 0.7f);
    EXPECT_EQ(request.sampling.top_p, 0.9f);
    EXPECT_EQ(request.sampling.top_logprobs, -1);
    EXPECT_EQ(request.seed, std::nullopt);
    EXPECT_EQ(request.max_tokens, -1);
    EXPECT_TRUE(request.stop.empty());
    EXPECT_EQ(request.choices, 1);
    EXPECT_FALSE(request.stream);
    EXPECT_FALSE(request.include_usage);
    EXPECT_EQ(request.cache_salt, "");
    EXPECT_EQ(request.priority, 0);
    EXPECT_EQ(request.chat.effort, "max");
    EXPECT_EQ(request.chat.thinking, Thinking::kOn);
    EXPECT_EQ(request.chat.tool_choice, ToolChoice::kAuto);
    EXPECT_FALSE(request.chat.continue_final_message);
    ASSERT_EQ(request.chat.messages.size(), 1u);
    EXPECT_EQ(request.chat.messages[0].role, "user");
    EXPECT_EQ(request.chat.messages[0].content.parts[0].text, "hi");
  }
}

TEST(ChatCompletionRequest, reads_every_sampling_field) {
  const auto request = accepted(with(
      R"("model":"m/x:y","temperature":0,"top_p":0.5,"top_k":7,"min_p":0.25,"presence_penalty":-1,
         "frequency_penalty":2,"repetition_penalty":1.5,"seed":-3,"stop":["a","bc"],"n":128,
         "max_tokens":9,"logprobs":true,"top_logprobs":20,"stream":true,
         "stream_options":{"include_usage":true}, "cache_salt":"t","priority":-2,"user":"u","metadata":{"a":1},"unheard_of":[1])"));
  EXPECT_EQ(request.model, "m/x:y");
  EXPECT_EQ(request.sampling.temperature, 0);
  EXPECT_EQ(request.sampling.top_p, 0.5f);
  EXPECT_EQ(request.sampling.top_k, 7);
  EXPECT_EQ(request.sampling.min_p, 0.25f);
  EXPECT_EQ(request.sampling.presence_penalty, -1);
  EXPECT_EQ(request.sampling.frequency_penalty, 2);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(request.seed, static_cast<std::uint64_t>(-3));
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "bc"}));
  EXPECT_EQ(request.choices, 128);
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.sampling.top_logprobs, 20);
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_EQ(request.cache_salt, "1:t");
  EXPECT_EQ(request.priority, -2);
}

TEST(ChatCompletionRequest, takes_integers_that_are_spelt_as_strings_and_the_newer_name) {
  const auto request = accepted(with(R"("max_completion_tokens":"5","max_tokens":9,"seed":"7")"));
  EXPECT_EQ(request.max_tokens, 5);
  EXPECT_EQ(request.seed, 7u);
}

TEST(ChatCompletionRequest, a_temperature_too_small_for_a_float_is_greedy) {
  EXPECT_EQ(accepted(with(R"("temperature":1e-320)")).sampling.temperature, 0);
}

TEST(ChatCompletionRequest, logprobs_alone_ask_for_the_chosen_token) {
  EXPECT_EQ(accepted(with(R"("logprobs":true)")).sampling.top_logprobs, 0);
  EXPECT_EQ(accepted(with(R"("logprobs":false)")).sampling.top_logprobs, -1);
}

TEST(ChatCompletionRequest, reads_effort_and_thinking) {
  EXPECT_EQ(accepted(with(R"("reasoning_effort":"low")")).chat.effort, "low");
  EXPECT_EQ(accepted(with(R"("reasoning_effort":null)")).chat.effort, "max");
  EXPECT_EQ(accepted(with(R"("chat_template_kwargs":{"thinking_effort":null})")).chat.effort,
            std::nullopt);
  EXPECT_EQ(accepted(with(R"("chat_template_kwargs":{"thinking_effort":"high"},
                             "reasoning_effort":"low")"))
                .chat.effort,
            "high");
  for (const char* key : {"thinking", "enable_thinking"}) {
    const std::string kwargs = R"("chat_template_kwargs":{")" + std::string(key) + R"(":)";
    EXPECT_EQ(accepted(with(kwargs + "false}")).chat.thinking, Thinking::kOff) << key;
    EXPECT_EQ(accepted(with(kwargs + "true}")).chat.thinking, Thinking::kOn) << key;
    EXPECT_EQ(accepted(with(kwargs + "null}")).chat.thinking, Thinking::kOn) << key;
  }
}

TEST(ChatCompletionRequest, reads_a_conversation_with_every_role) {
  const auto chat = accepted(R"({"messages":[
    {"role":"system","content":"be brief"},
    {"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
    {"role":"user","content":[],"name":"Ann"},
    {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[
      {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\": 1"}},
      {"function":{"name":"g","arguments":{"k":[1,2.50]}}}]},
    {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"r"}]},
    {"role":"assistant","content":"so","reasoning":"because"}]})")
                        .chat;
  ASSERT_EQ(chat.messages.size(), 6u);
  EXPECT_EQ(chat.messages[1].content.parts.size(), 2u);
  EXPECT_EQ(chat.messages[2].name, "Ann");
  EXPECT_TRUE(chat.messages[2].content.empty());
  EXPECT_EQ(chat.messages[3].reasoning, "hm");
  ASSERT_EQ(chat.messages[3].tool_calls.size(), 2u);
  EXPECT_EQ(chat.messages[3].tool_calls[0].id, "c1");
  EXPECT_EQ(chat.messages[3].tool_calls[0].arguments, R"({"x": 1)");
  EXPECT_EQ(chat.messages[3].tool_calls[1].arguments, R"({"k": [1, 2.5]})");
  EXPECT_EQ(chat.messages[4].tool_call_id, "c1");
  EXPECT_EQ(chat.messages[4].content.parts[0].text, "r");
  EXPECT_EQ(chat.messages[5].reasoning, "because");
  EXPECT_FALSE(chat.continue_final_message);
}

TEST(ChatCompletionRequest, a_partial_last_message_is_continued) {
  EXPECT_TRUE(accepted(with_message(R"({"role":"assistant","content":"So","partial":true})"))
                  .chat.continue_final_message);
  EXPECT_TRUE(accepted(with(R"("continue_final_message":true)")).chat.continue_final_message);
}

TEST(ChatCompletionRequest, reads_tools_and_the_choice_among_them) {
  const std::string tools = R"("tools":[)" + std::string(kTimer) + "]";
  const auto chat = accepted(with(tools)).chat;
  ASSERT_EQ(chat.tools.size(), 1u);
  EXPECT_EQ(chat.tools[0],
            R"({"type": "function", "function": {"name": "set_timer", "parameters": )"
            R"({"b": 1, "a": 1.5}}})");
  EXPECT_EQ(accepted(with(tools + R"(,"tool_choice":"none")")).chat.tool_choice, ToolChoice::kNone);
  EXPECT_EQ(accepted(with(tools + R"(,"tool_choice":"required")")).chat.tool_choice,
            ToolChoice::kRequired);
  const auto named = accepted(with(tools + R"(,"parallel_tool_calls":false,
                                "tool_choice":{"type":"function","function":{"name":"set_timer"}})"))
                         .chat;
  EXPECT_EQ(named.tool_choice, ToolChoice::kNamed);
  EXPECT_EQ(named.named_tool, "set_timer");
  EXPECT_FALSE(named.parallel_tool_calls);
  const auto dynamic = accepted(R"({"messages":[{"role":"system","tools":[)" + std::string(kTimer) +
                                R"(]},{"role":"user","content":"hi"}],"tool_choice":"required"})");
  EXPECT_EQ(dynamic.chat.messages[0].tools.size(), 1u);
}

TEST(ChatCompletionRequest, fields_that_ask_for_nothing_are_no_reason_to_refuse) {
  accepted(with(R"("logit_bias":{},"ignore_eos":false,"best_of":null,"min_tokens":0,"regex":"",
                   "stop_token_ids":[],"response_format":{"type":"text"})"));
}

TEST(ChatCompletionRequest, the_last_of_repeated_keys_counts) {
  EXPECT_EQ(accepted(with(R"("n":2,"n":3)")).choices, 3);
}

// What is refused, and the field that the error names.
struct Refusal {
  std::string body;
  std::string field;
};

void expect_refused(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    const auto request = parse(refusal.body);
    ASSERT_FALSE(request) << refusal.body;
    EXPECT_EQ(request.error().code, StatusCode::kInvalidArgument) << refusal.body;
    EXPECT_EQ(request.error().field, refusal.field) << refusal.body;
    EXPECT_LT(request.error().message.size(), 600u) << refusal.body;
    if (!refusal.field.empty()) {
      EXPECT_TRUE(request.error().message.starts_with(refusal.field)) << request.error().message;
    }
  }
}

TEST(ChatCompletionRequest, refuses_sampling_values_out_of_range_or_of_the_wrong_type) {
  std::vector<Refusal> refusals;
  const auto refuse = [&](const std::string& field, std::initializer_list<const char*> values) {
    for (const char* value : values) {
      refusals.push_back({with("\"" + field + "\":" + value), field});
    }
  };
  refuse("temperature", {"-1", "2.1", "1e9", "\"hot\"", "true", "[]", "{}", "\"1\"", "-1e-30"});
  refuse("top_p", {"0", "2", "-0.1", "1.001", "1e-320", "\"1\""});
  refuse("top_k", {"-5", "-2", "1.5", "1e3", "99999999999999999999", "true", "\"x\""});
  refuse("min_p", {"-0.1", "1.1", "\"0\""});
  refuse("presence_penalty", {"-2.1", "2.1", "[]"});
  refuse("frequency_penalty", {"-2.1", "3", "\"\""});
  refuse("repetition_penalty", {"0", "-1", "2.1"});
  refuse("max_tokens", {"0", "-1", "1.5", "\"five\"", "\"\"", "\"5 \"", "[5]"});
  refuse("max_completion_tokens", {"0", "false"});
  refuse("seed", {"1.5", "9223372036854775808", "\"a\""});
  refuse("n", {"0", "129", "-1", "1.0", "{}"});
  refuse("logprobs", {"1", "\"true\""});
  refuse("stream", {"1", "\"true\""});
  refuse("model", {"1", "[]"});
  refuse("reasoning_effort", {"\"huge\"", "\"\"", "0.5"});
  refuse("continue_final_message", {"1"});
  refuse("stop", {"1", "{}", "\"\""});
  refuse("top_logprobs", {"0", "20"});  // without logprobs
  refuse("stream_options", {"{}", "{\"include_usage\":true}", "true"});
  refuse("chat_template_kwargs", {"1", "[]"});
  refuse("tool_choice", {"\"maybe\"", "1", "\"required\""});
  expect_refused(refusals);
}

TEST(ChatCompletionRequest, refuses_values_inside_fields_by_their_path) {
  const std::string tools = R"("tools":[)" + std::string(kTimer) + "]";
  std::string many_stops = R"("stop":["a")";
  for (int i = 0; i < 64; ++i) many_stops += R"(,"a")";
  expect_refused({
      {with(R"("stop":["a",""])"), "stop[1]"},
      {with(R"("stop":["a",1])"), "stop[1]"},
      {with(R"("stop":[")" + std::string(1025, 'x') + R"("])"), "stop[0]"},
      {with(many_stops + "]"), "stop"},
      {with(R"("logprobs":true,"top_logprobs":21)"), "top_logprobs"},
      {with(R"("logprobs":true,"top_logprobs":-1)"), "top_logprobs"},
      {with(R"("stream":true,"stream_options":{"include_usage":1})"),
       "stream_options.include_usage"},
      {with(R"("chat_template_kwargs":{"thinking":"yes"})"), "chat_template_kwargs.thinking"},
      {with(R"("chat_template_kwargs":{"thinking_effort":"huge"})"),
       "chat_template_kwargs.thinking_effort"},
      {with(tools + R"(,"tool_choice":{"type":"function"})"), "tool_choice.function.name"},
      {with(tools + R"(,"tool_choice":{"function":{"name":"other"}})"),
       "tool_choice.function.name"},
      {with(R"("tools":[],"tool_choice":"required")"), "tool_choice"},
      {with(R"("response_format":{})"), "response_format.type"},
      {with(R"("response_format":"text")"), "response_format"},
      {with(R"("cache_salt":7)"), "cache_salt"},
      {with(R"("cache_salt":")" + std::string(1025, 'x') + R"(")"), "cache_salt"},
      {with(R"("priority":1.5)"), "priority"},
      {with(R"("priority":2000000000)"), "priority"},
      {with(R"("logit_bias":{"-1":1})"), "logit_bias"},
      {with(R"("logit_bias":{"2147483648":1})"), "logit_bias"},
      {with(R"("logit_bias":{"abc":1})"), "logit_bias"},
      {with(R"("logit_bias":{"5":1e30})"), "logit_bias"},
      {with(R"("logit_bias":[[5]])"), "logit_bias[0]"},
      {with(R"("ignore_eos":1)"), "ignore_eos"},
      {with(R"("stop_token_ids":[-1])"), "stop_token_ids[0]"},
      {with(R"("min_tokens":-1)"), "min_tokens"},
      {with(R"("timeout":0)"), "timeout"},
      {with(R"("rid":"a\nb")"), "rid"},
      {with(R"("thinking":{"type":"on"})"), "thinking.type"},
      {with(R"("reasoning":{"effort":"huge"})"), "reasoning.effort"},
      {with(R"("modalities":["text","audio"])"), "modalities"},
      {with(R"("suffix":"x")"), "suffix"},
      {with(R"("regex":"a+","guided_json":{})"), "guided_json"},
      {with(R"("best_of":2)"), "best_of"},
      {with(R"("chat_template":"{{x}}")"), "chat_template"},
  });
}

TEST(ChatCompletionRequest, refuses_malformed_tools_by_their_path) {
  const auto tools = [](const std::string& list) { return with(R"("tools":)" + list); };
  const auto named = [&](const std::string& name) {
    return tools(R"([{"type":"function","function":{"name":")" + name + R"("}}])");
  };
  expect_refused({
      {tools("{}"), "tools"},
      {tools("[1]"), "tools[0]"},
      {tools("[{}]"), "tools[0].type"},
      {tools(R"([{"type":"web"}])"), "tools[0].type"},
      {tools(R"([{"type":"function"}])"), "tools[0].function"},
      {tools(R"([{"type":"function","function":{}}])"), "tools[0].function.name"},
      {tools(R"([{"type":"function","function":{"name":"a","parameters":"{}"}}])"),
       "tools[0].function.parameters"},
      {tools(R"([{"type":"function","function":{"name":"a","parameters":[]}}])"),
       "tools[0].function.parameters"},
      {tools(R"([{"type":"function","function":{"name":"a","strict":1}}])"),
       "tools[0].function.strict"},
      {tools(R"([{"type":"function","function":{"name":"a","description":1}}])"),
       "tools[0].function.description"},
      {named(""), "tools[0].function.name"},
      {named("1a"), "tools[0].function.name"},
      {named("a@b"), "tools[0].function.name"},
      {named(std::string(257, 'a')), "tools[0].function.name"},
      {tools("[" + std::string(kTimer) + "," + kTimer + "]"), "tools[1].function.name"},
      {R"({"messages":[{"role":"system","tools":[)" + std::string(kTimer) + "]}]," +
           R"("tools":[)" + kTimer + "]}",
       "tools[0].function.name"},
      {with_message(R"({"role":"system","tools":7})"), "messages[0].tools"},
  });
  EXPECT_TRUE(parse(named(std::string(256, 'a'))));
  EXPECT_TRUE(parse(
      tools(R"([{"type":"function","function":{"name":"a","parameters":null,"strict":null}}])")));
}

TEST(ChatCompletionRequest, refuses_malformed_messages_by_their_path) {
  expect_refused({
      {"{}", "messages"},
      {R"({"messages":null})", "messages"},
      {R"({"messages":[]})", "messages"},
      {R"({"messages":{}})", "messages"},
      {with_message("1"), "messages[0]"},
      {with_message("{}"), "messages[0].role"},
      {with_message(R"({"role":"robot","content":""})"), "messages[0].role"},
      {with_message(R"({"role":"function","content":""})"), "messages[0].role"},
      {with_message(R"({"role":1})"), "messages[0].role"},
      {with_message(R"({"role":"user"})"), "messages[0].content"},
      {with_message(R"({"role":"user","content":null})"), "messages[0].content"},
      {with_message(R"({"role":"user","content":1})"), "messages[0].content"},
      {with_message(R"({"role":"user","content":["a"]})"), "messages[0].content[0]"},
      {with_message(R"({"role":"user","content":[{"text":"a"}]})"), "messages[0].content[0].type"},
      {with_message(R"({"role":"user","content":[{"type":"text"}]})"),
       "messages[0].content[0].text"},
      {with_message(R"({"role":"user","content":[{"type":"image_url","image_url":{"url":""}}]})"),
       "messages[0].content[0].type"},
      {with_message(R"({"role":"user","content":"a","name":1})"), "messages[0].name"},
      {with_message(R"({"role":"tool","content":"r"})"), "messages[0].tool_call_id"},
      {with_message(R"({"role":"assistant","reasoning_content":1})"),
       "messages[0].reasoning_content"},
      {with_message(R"({"role":"assistant","tool_calls":{}})"), "messages[0].tool_calls"},
      {with_message(R"({"role":"assistant","tool_calls":[{}]})"),
       "messages[0].tool_calls[0].function"},
      {with_message(R"({"role":"assistant","tool_calls":[{"type":"x","function":{}}]})"),
       "messages[0].tool_calls[0].type"},
      {with_message(R"({"role":"assistant","tool_calls":[{"function":{}}]})"),
       "messages[0].tool_calls[0].function.name"},
      {with_message(
           R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":1}}]})"),
       "messages[0].tool_calls[0].function.arguments"},
      {with_message(R"({"role":"assistant","content":"x","partial":"yes"})"),
       "messages[0].partial"},
  });
}

TEST(ChatCompletionRequest, refuses_what_is_not_json) {
  std::vector<Refusal> refusals;
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"), std::string("1"),
        with(R"("temperature":NaN)"), with(R"("temperature":Infinity)"),
        with(R"("temperature":-Infinity)"), with(R"("temperature":1e999)"),
        with_message(R"({"role":"user","content":"\ud800"})"),
        with_message("{\"role\":\"user\",\"content\":\"\xff\"}"), with("") + "x",
        "{\"" + std::string(1 << 20, 'x')}) {
    refusals.push_back({body, ""});
  }
  expect_refused(refusals);
}

TEST(ChatCompletionRequest, refuses_a_nesting_bomb_and_too_many_values_before_building_them) {
  const std::size_t levels = 1 << 20;
  expect_refused({
      {std::string(levels, '['), ""},
      {with(R"("x":)" + std::string(levels, '[') + std::string(levels, ']')), ""},
      {with(R"("x":[0)" +
            [] {
              std::string zeros;
              for (int i = 0; i < 2'000'001; ++i) zeros += ",0";
              return zeros;
            }() +
            "]"),
       ""},
  });
  // Brackets and commas inside strings are text.
  accepted(with_message(R"({"role":"user","content":")" + std::string(levels, '[') + R"(\"[,"})"));
  accepted(with(R"("x":)" + std::string(190, '[') + std::string(190, ']')));
}

TEST(ChatCompletionRequest, reads_the_fields_that_other_servers_know) {
  const auto request = accepted(with(
      R"("logit_bias":{"5":-100,"7":1.5},"min_tokens":2,"stop_token_ids":[9,"10"],"ignore_eos":true,
         "no_stop_trim":true,"skip_special_tokens":false,"timeout":1.5,"rid":"r-1",
         "return_token_ids":true,"return_meta_info":true,"cache_salt":"ab","extra_key":"c",
         "stream":true,"stream_options":{"continuous_usage_stats":true}, "sampling_seed":4,
         "repeat_penalty":1.25,"separate_reasoning":false)"));
  ASSERT_EQ(request.sampling.logit_bias.size(), 2u);
  EXPECT_EQ(request.sampling.logit_bias[0].id, 5);
  EXPECT_EQ(request.sampling.logit_bias[0].bias, -100);
  EXPECT_EQ(request.sampling.logit_bias[1].bias, 1.5f);
  EXPECT_EQ(request.sampling.min_tokens, 2);
  EXPECT_EQ(request.stop_token_ids, (std::vector<TokenId>{9, 10}));
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_TRUE(request.keep_stop);
  EXPECT_FALSE(request.skip_special_tokens);
  EXPECT_EQ(request.timeout_s, 1.5);
  EXPECT_EQ(request.request_id, "r-1");
  EXPECT_TRUE(request.return_token_ids);
  EXPECT_TRUE(request.return_meta_info);
  EXPECT_EQ(request.cache_salt, "2:abc");
  EXPECT_TRUE(request.continuous_usage);
  EXPECT_EQ(request.seed, 4u);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.25f);
  EXPECT_EQ(request.reasoning, ReasoningText::kInContent);
  EXPECT_EQ(request.unknown_fields, 0);
}

TEST(ChatCompletionRequest, takes_thinking_in_every_spelling) {
  EXPECT_EQ(accepted(with(R"("reasoning":{"enabled":false})")).chat.thinking, Thinking::kOff);
  EXPECT_EQ(accepted(with(R"("reasoning":{"effort":"low"})")).chat.effort, "low");
  EXPECT_EQ(accepted(with(R"("thinking":{"type":"disabled"})")).chat.thinking, Thinking::kOff);
  EXPECT_EQ(accepted(with(R"("thinking":{"type":"enabled","effort":"high"})")).chat.effort, "high");
}

TEST(ChatCompletionRequest, counts_fields_that_nobody_knows) {
  const auto request = accepted(with(R"("user":"u","first":1,"second":2)"));
  EXPECT_EQ(request.unknown_fields, 2);
  EXPECT_EQ(request.unknown_field, "first");
}

}  // namespace
}  // namespace tandem
