#include "serve/messages_request.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tandem {
namespace {

// A body with these messages and more fields.
std::string with_messages(const std::string& messages, const std::string& fields = {}) {
  return R"({"max_tokens":9,"messages":[)" + messages + "]" + (fields.empty() ? "" : ",") + fields +
         "}";
}

std::string with(const std::string& fields) {
  return with_messages(R"({"role":"user","content":"hi"})", fields);
}

Result<MessagesRequest> parse(const std::string& body,
                              MessagesPurpose purpose = MessagesPurpose::kAnswer) {
  return parse_messages_request(body, {.temperature = 0.7f, .top_p = 0.9f}, purpose);
}

MessagesRequest accepted(const std::string& body) {
  auto request = parse(body);
  EXPECT_TRUE(request) << body << "\n" << request.error().message;
  return request ? *request : MessagesRequest{};
}

// The field that a refusal names.
std::string refused(const std::string& body) {
  const auto request = parse(body);
  EXPECT_FALSE(request) << body;
  if (request) return {};
  EXPECT_EQ(request.error().code, StatusCode::kInvalidArgument);
  EXPECT_TRUE(request.error().message.starts_with(request.error().field))
      << request.error().message;
  return request.error().field;
}

constexpr const char* kCall =
    R"({"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},
       {"type":"text","text":"Let me see."},
       {"type":"tool_use","id":"t1","name":"look","input":{"b":1.50,"a":"x"}}]})";

std::string text_of(const ChatMessage& message) {
  std::string text;
  for (const ContentPart& part : message.content.parts) text += part.text;
  return text;
}

TEST(MessagesRequest, leaves_defaults_where_the_body_says_nothing) {
  for (const std::string& body :
       {with(""), with(R"("temperature":null,"tools":null,"thinking":null,"system":null)")}) {
    const auto request = accepted(body);
    EXPECT_EQ(request.model, "");
    EXPECT_EQ(request.sampling.temperature, 0.7f);
    EXPECT_EQ(request.sampling.top_p, 0.9f);
    EXPECT_EQ(request.max_tokens, 9);
    EXPECT_TRUE(request.stop.empty());
    EXPECT_FALSE(request.stream);
    EXPECT_EQ(request.chat.thinking, Thinking::kOff);
    EXPECT_EQ(request.chat.tool_choice, ToolChoice::kAuto);
    EXPECT_TRUE(request.chat.parallel_tool_calls);
    EXPECT_FALSE(request.chat.continue_final_message);
    ASSERT_EQ(request.chat.messages.size(), 1u);
    EXPECT_EQ(request.chat.messages[0].role, "user");
    EXPECT_EQ(text_of(request.chat.messages[0]), "hi");
  }
}

TEST(MessagesRequest, reads_every_sampling_field) {
  const auto request = accepted(with(
      R"("model":"m/x:y","temperature":0,"top_p":0.5,"top_k":7,"stop_sequences":["a","bc"],
         "stream":true,"thinking":{"type":"enabled","budget_tokens":2048},
         "output_config":{"effort":"low"},"metadata":{"user_id":"u"},"service_tier":"auto",
         "context_management":{"edits":[{"type":"clear_thinking_20251015"}]},"unheard_of":[1])"));
  EXPECT_EQ(request.model, "m/x:y");
  EXPECT_EQ(request.sampling.temperature, 0);
  EXPECT_EQ(request.sampling.top_p, 0.5f);
  EXPECT_EQ(request.sampling.top_k, 7);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "bc"}));
  EXPECT_TRUE(request.stream);
  EXPECT_EQ(request.chat.thinking, Thinking::kOn);
  EXPECT_EQ(request.chat.effort, "low");
  EXPECT_EQ(accepted(with(R"("thinking":{"type":"adaptive"})")).chat.thinking, Thinking::kOn);
  EXPECT_EQ(accepted(with(R"("thinking":{"type":"disabled"})")).chat.thinking, Thinking::kOff);
}

TEST(MessagesRequest, the_system_prompt_comes_first_without_the_billing_line) {
  const auto text = accepted(with(R"("system":"Be brief.")"));
  ASSERT_EQ(text.chat.messages.size(), 2u);
  EXPECT_EQ(text.chat.messages[0].role, "system");
  EXPECT_EQ(text_of(text.chat.messages[0]), "Be brief.");
  const auto blocks =
      accepted(with(R"("system":[{"type":"text","text":"x-anthropic-billing-header: cch=1;"},
             {"type":"text","text":"Be ","cache_control":{"type":"ephemeral"}},
             {"type":"text","text":"brief."}])"));
  EXPECT_EQ(text_of(blocks.chat.messages[0]), "Be brief.");
  EXPECT_EQ(accepted(with(R"("system":"")")).chat.messages.size(), 1u);
}

TEST(MessagesRequest, blocks_become_thinking_calls_and_results) {
  const auto request =
      accepted(with_messages(R"({"role":"user","content":"go"},)" + std::string(kCall) +
                             R"(,{"role":"user","content":[
           {"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"re"},
            {"type":"text","text":"sult"}],"is_error":true},
           {"type":"text","text":"and","cache_control":{"type":"ephemeral"}},
           {"type":"text","text":" now?"}]})"));
  const auto& messages = request.chat.messages;
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[1].reasoning, "hm");
  EXPECT_EQ(text_of(messages[1]), "Let me see.");
  ASSERT_EQ(messages[1].tool_calls.size(), 1u);
  EXPECT_EQ(messages[1].tool_calls[0].id, "t1");
  EXPECT_EQ(messages[1].tool_calls[0].name, "look");
  EXPECT_EQ(messages[1].tool_calls[0].arguments, R"({"b": 1.5, "a": "x"})");
  EXPECT_EQ(messages[2].role, "tool");
  EXPECT_EQ(messages[2].tool_call_id, "t1");
  EXPECT_EQ(text_of(messages[2]), "result");
  EXPECT_EQ(messages[3].role, "user");
  EXPECT_EQ(text_of(messages[3]), "and now?");
  EXPECT_FALSE(request.chat.continue_final_message);
}

TEST(MessagesRequest, neighbouring_messages_of_the_assistant_are_one_turn) {
  const auto request = accepted(with_messages(
      R"({"role":"user","content":"go"},{"role":"assistant","content":"One moment."},)" +
      std::string(kCall) +
      R"(,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]})"));
  ASSERT_EQ(request.chat.messages.size(), 3u);
  EXPECT_EQ(text_of(request.chat.messages[1]), "One moment.Let me see.");
  EXPECT_EQ(request.chat.messages[1].tool_calls.size(), 1u);
  EXPECT_TRUE(request.chat.messages[2].content.empty());
}

TEST(MessagesRequest, a_last_message_of_the_assistant_is_gone_on_with) {
  const auto request = accepted(with_messages(
      R"({"role":"user","content":"go"},{"role":"assistant","content":[{"type":"text","text":"On"}]})"));
  EXPECT_TRUE(request.chat.continue_final_message);
  EXPECT_EQ(refused(with_messages(R"({"role":"user","content":"go"},)" + std::string(kCall))),
            "messages.1.content");
}

TEST(MessagesRequest, tools_become_functions_and_keep_what_the_model_is_to_know) {
  const auto request = accepted(with(
      R"("tools":[{"name":"look","description":"d","input_schema":{"type":"object"},"strict":true,
           "cache_control":{"type":"ephemeral"}},
          {"type":"custom","name":"x","input_schema":{"type":"object"}}],
         "tool_choice":{"type":"tool","name":"look","disable_parallel_tool_use":true})"));
  ASSERT_EQ(request.chat.tools.size(), 2u);
  EXPECT_EQ(request.chat.tools[0],
            R"({"type": "function", "function": {"name": "look", "description": "d", )"
            R"("parameters": {"type": "object"}, "strict": true}})");
  EXPECT_EQ(request.chat.tool_choice, ToolChoice::kNamed);
  EXPECT_EQ(request.chat.named_tool, "look");
  EXPECT_FALSE(request.chat.parallel_tool_calls);
  const std::string tools = R"("tools":[{"name":"x","input_schema":{}}],)";
  EXPECT_EQ(accepted(with(tools + R"("tool_choice":{"type":"any"})")).chat.tool_choice,
            ToolChoice::kRequired);
  EXPECT_EQ(accepted(with(tools + R"("tool_choice":{"type":"none"})")).chat.tool_choice,
            ToolChoice::kNone);
}

TEST(MessagesRequest, a_schema_for_the_content_is_read_in_both_places) {
  for (const auto& [name, fields] :
       {std::pair{"output_config.format.schema",
                  R"("output_config":{"format":{"type":"json_schema","schema":{"a":1}}})"},
        {"output_format.schema", R"("output_format":{"type":"json_schema","schema":{"a":1}})"}}) {
    const auto format = accepted(with(fields)).chat.response_format;
    EXPECT_EQ(format.kind, ResponseFormat::Kind::kJsonSchema);
    EXPECT_EQ(format.source, R"({"a": 1})");
    EXPECT_EQ(format.field, name);
  }
}

TEST(MessagesRequest, refusals_name_the_field_as_anthropic_does) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("temperature":1.5)", "temperature"},
      {R"("temperature":"hot")", "temperature"},
      {R"("top_p":0)", "top_p"},
      {R"("top_k":-1)", "top_k"},
      {R"("stream":"yes")", "stream"},
      {R"("stop_sequences":"a")", "stop_sequences"},
      {R"("stop_sequences":["a",""])", "stop_sequences.1"},
      {R"("system":7)", "system"},
      {R"("system":[{"type":"image"}])", "system.0.type"},
      {R"("thinking":{"type":"maybe"})", "thinking.type"},
      {R"("thinking":{"type":"enabled","budget_tokens":"x"})", "thinking.budget_tokens"},
      {R"("output_config":{"effort":"none"})", "output_config.effort"},
      {R"("output_config":{"format":{"type":"text"}})", "output_config.format.type"},
      {R"("tools":[{"name":"x"}])", "tools.0.input_schema"},
      {R"("tools":[{"name":"x","input_schema":[]}])", "tools.0.input_schema"},
      {R"("tools":[{"name":"a b","input_schema":{}}])", "tools.0.name"},
      {R"("tools":[{"name":"x","input_schema":{}},{"name":"x","input_schema":{}}])",
       "tools.1.name"},
      {R"("tools":[{"name":"x","input_schema":{},"strict":1}])", "tools.0.strict"},
      {R"("tools":[{"type":"web_search_20250305","name":"web_search"}])", "tools.0.type"},
      {R"("tool_choice":"auto")", "tool_choice"},
      {R"("tool_choice":{"type":"required"})", "tool_choice.type"},
      {R"("tool_choice":{"type":"any"})", "tool_choice"},
      {R"("tools":[{"name":"x","input_schema":{}}],"tool_choice":{"type":"tool","name":"y"})",
       "tool_choice.name"},
      {R"("tools":[{"name":"x","input_schema":{}}],"tool_choice":{"type":"tool"})",
       "tool_choice.name"},
      {R"("mcp_servers":[{"type":"url"}])", "mcp_servers"},
  };
  for (const auto& [fields, field] : cases) EXPECT_EQ(refused(with(fields)), field) << fields;
  EXPECT_TRUE(parse(with(R"("mcp_servers":[])")));
}

TEST(MessagesRequest, refusals_of_messages_name_the_block) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"7", "messages.0"},
      {R"({"content":"x"})", "messages.0.role"},
      {R"({"role":"tool","content":"x"})", "messages.0.role"},
      {R"({"role":"user"})", "messages.0.content"},
      {R"({"role":"user","content":7})", "messages.0.content"},
      {R"({"role":"user","content":[]})", "messages.0.content"},
      {R"({"role":"user","content":["x"]})", "messages.0.content.0"},
      {R"({"role":"user","content":[{"text":"x"}]})", "messages.0.content.0.type"},
      {R"({"role":"user","content":[{"type":"text"}]})", "messages.0.content.0.text"},
      {R"({"role":"user","content":[{"type":"text","text":"x"},{"type":"image","source":{}}]})",
       "messages.0.content.1.type"},
      {R"({"role":"user","content":[{"type":"tool_use","id":"t","name":"x","input":{}}]})",
       "messages.0.content.0.type"},
      {R"({"role":"user","content":[{"type":"tool_result","content":"x"}]})",
       "messages.0.content.0.tool_use_id"},
      {R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t9"}]})",
       "messages.0.content.0.tool_use_id"},
      {R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"x","input":"{}"}]})",
       "messages.0.content.0.input"},
      {R"({"role":"assistant","content":[{"type":"tool_use","id":"t","input":{}}]})",
       "messages.0.content.0.name"},
  };
  for (const auto& [message, field] : cases) {
    EXPECT_EQ(refused(with_messages(message)), field) << message;
  }
  EXPECT_EQ(refused(with_messages("")), "messages");
  // A result whose call is further back than the last turn of the assistant.
  EXPECT_EQ(refused(with_messages(
                std::string(kCall) +
                R"(,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]},
                   {"role":"assistant","content":"ok"},
                   {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]})")),
            "messages.3.content.0.tool_use_id");
  EXPECT_EQ(
      refused(with_messages(std::string(kCall) +
                            R"(,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1",
                   "content":[{"type":"image"}]}]})")),
      "messages.1.content.0.content.0.type");
}

TEST(MessagesRequest, max_tokens_is_required_of_an_answer_and_not_of_a_count) {
  const std::string body = R"({"messages":[{"role":"user","content":"hi"}]})";
  EXPECT_EQ(refused(body), "max_tokens");
  EXPECT_TRUE(parse(body, MessagesPurpose::kCount));
  EXPECT_EQ(refused(R"({"max_tokens":0,"messages":[{"role":"user","content":"hi"}]})"),
            "max_tokens");
  EXPECT_EQ(refused(R"({"max_tokens":1})"), "messages");
}

}  // namespace
}  // namespace tandem
