#include "serve/responses_request.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace tandem {
namespace {

std::string with(const std::string& fields) {
  return R"({"input":"hi")" + (fields.empty() ? "" : "," + fields) + "}";
}

std::string with_items(const std::string& items) { return R"({"input":[)" + items + "]}"; }

Result<ResponsesRequest> parse(const std::string& body) {
  return parse_responses_request(body, {.temperature = 0.7f, .top_p = 0.9f});
}

ResponsesRequest accepted(const std::string& body) {
  auto request = parse(body);
  EXPECT_TRUE(request) << body << "\n" << request.error().message;
  return request ? *request : ResponsesRequest{};
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

std::string text_of(const ChatMessage& message) {
  std::string text;
  for (const ContentPart& part : message.content.parts) text += part.text;
  return text;
}

const std::string kCall =
    R"({"type":"function_call","id":"fc_1","call_id":"c1","name":"look","arguments":"{\"a\":1}"})";

TEST(ResponsesRequest, leaves_defaults_where_the_body_says_nothing) {
  for (const std::string& body :
       {with(""), with(R"("temperature":null,"tools":null,"previous_response_id":null)")}) {
    const auto request = accepted(body);
    EXPECT_EQ(request.sampling.temperature, 0.7f);
    EXPECT_EQ(request.sampling.top_p, 0.9f);
    EXPECT_EQ(request.max_tokens, -1);
    EXPECT_FALSE(request.stream);
    EXPECT_EQ(request.chat.effort, "max");
    EXPECT_EQ(request.chat.tool_choice, ToolChoice::kAuto);
    EXPECT_TRUE(request.chat.parallel_tool_calls);
    EXPECT_EQ(request.chat.response_format.kind, ResponseFormat::Kind::kText);
    EXPECT_TRUE(request.echo.empty());
    ASSERT_EQ(request.chat.messages.size(), 1u);
    EXPECT_EQ(request.chat.messages[0].role, "user");
    EXPECT_EQ(text_of(request.chat.messages[0]), "hi");
  }
}

TEST(ResponsesRequest, reads_what_shapes_the_answer) {
  const auto request = accepted(with(
      R"("model":"m","instructions":"Be brief.","max_output_tokens":9,"temperature":2,"top_p":0.5,
         "stream":true,"store":true,"reasoning":{"effort":"low","summary":"auto"},
         "parallel_tool_calls":false,"truncation":"auto","metadata":{"a":"b"},"user":"u",
         "include":["reasoning.encrypted_content"],"background":false,"unheard_of":1)"));
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.sampling.temperature, 2);
  EXPECT_EQ(request.sampling.top_p, 0.5f);
  EXPECT_TRUE(request.stream);
  EXPECT_EQ(request.chat.effort, "low");
  EXPECT_FALSE(request.chat.parallel_tool_calls);
  ASSERT_EQ(request.chat.messages.size(), 2u);
  EXPECT_EQ(request.chat.messages[0].role, "system");
  EXPECT_EQ(text_of(request.chat.messages[0]), "Be brief.");
  const auto echoed = [&](const char* name) {
    const auto found = std::find_if(request.echo.begin(), request.echo.end(),
                                    [&](const auto& each) { return each.first == name; });
    return found == request.echo.end() ? std::string() : found->second;
  };
  EXPECT_EQ(echoed("metadata"), R"({"a": "b"})");
  EXPECT_EQ(echoed("temperature"), "2");
  EXPECT_EQ(echoed("store"), "");  // nothing is
}

TEST(ResponsesRequest, items_of_the_assistant_are_one_turn) {
  const auto request = accepted(with_items(
      R"({"role":"user","content":[{"type":"input_text","text":"go"},
                                   {"type":"input_text","text":"!"}]},
         {"type":"reasoning","id":"rs_1","summary":[],
          "content":[{"type":"reasoning_text","text":"hm"}]},
         {"type":"message","role":"assistant","id":"msg_1","status":"completed",
          "content":[{"type":"output_text","text":"Let me see.","annotations":[]}]},)" +
      kCall + R"(,{"type":"function_call","call_id":"c2","name":"look","arguments":""},
         {"type":"function_call_output","call_id":"c2","output":"two"},
         {"type":"function_call_output","call_id":"c1",
          "output":[{"type":"input_text","text":"one"}]},
         {"role":"developer","content":"now"})"));
  const auto& messages = request.chat.messages;
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(text_of(messages[0]), "go!");
  EXPECT_EQ(messages[1].role, "assistant");
  EXPECT_EQ(messages[1].reasoning, "hm");
  EXPECT_EQ(text_of(messages[1]), "Let me see.");
  ASSERT_EQ(messages[1].tool_calls.size(), 2u);
  EXPECT_EQ(messages[1].tool_calls[0].id, "c1");
  EXPECT_EQ(messages[1].tool_calls[0].arguments, R"({"a":1})");
  EXPECT_EQ(messages[2].role, "tool");
  EXPECT_EQ(messages[2].tool_call_id, "c2");
  EXPECT_EQ(text_of(messages[3]), "one");
  EXPECT_EQ(messages[4].role, "developer");
}

TEST(ResponsesRequest, a_summary_stands_in_for_reasoning_without_content) {
  const auto request = accepted(with_items(R"({"role":"user","content":"go"},
                    {"type":"reasoning","summary":[{"type":"summary_text","text":"short"}]},
                    {"role":"assistant","content":"ok"},{"role":"user","content":"on"})"));
  EXPECT_EQ(request.chat.messages[1].reasoning, "short");
}

TEST(ResponsesRequest, tools_are_flat_and_become_functions) {
  const auto request =
      accepted(with(R"("tools":[{"type":"function","name":"look","description":"d","strict":true,
                        "parameters":{"type":"object"}},
                       {"type":"function","name":"x","parameters":null,"strict":null}],
              "tool_choice":{"type":"function","name":"look"})"));
  EXPECT_EQ(request.chat.tools[0],
            R"({"type": "function", "function": {"name": "look", "description": "d", )"
            R"("parameters": {"type": "object"}, "strict": true}})");
  EXPECT_EQ(request.chat.tools[1], R"({"type": "function", "function": {"name": "x"}})");
  EXPECT_EQ(request.chat.tool_choice, ToolChoice::kNamed);
  EXPECT_EQ(request.chat.named_tool, "look");
}

TEST(ResponsesRequest, formats_of_the_text_are_read) {
  const auto format = [](const std::string& json) {
    return accepted(with(R"("text":{"verbosity":"low","format":)" + json + "}"))
        .chat.response_format;
  };
  EXPECT_EQ(format(R"({"type":"text"})").kind, ResponseFormat::Kind::kText);
  EXPECT_EQ(format(R"({"type":"json_object"})").kind, ResponseFormat::Kind::kJsonObject);
  const auto schema = format(R"({"type":"json_schema","name":"n","schema":{"a":1}})");
  EXPECT_EQ(schema.kind, ResponseFormat::Kind::kJsonSchema);
  EXPECT_EQ(schema.source, R"({"a": 1})");
  EXPECT_EQ(schema.field, "text.format.schema");
}

TEST(ResponsesRequest, refusals_name_the_field_as_openai_does) {
  const std::string tool = R"("tools":[{"type":"function","name":"x"}],)";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("previous_response_id":"resp_1")", "previous_response_id"},
      {R"("conversation":"conv_1")", "conversation"},
      {R"("prompt":{"id":"p"})", "prompt"},
      {R"("background":true)", "background"},
      {R"("max_output_tokens":0)", "max_output_tokens"},
      {R"("temperature":3)", "temperature"},
      {R"("top_p":0)", "top_p"},
      {R"("top_logprobs":2)", "top_logprobs"},
      {R"("include":["message.output_text.logprobs"])", "include[0]"},
      {R"("instructions":["x"])", "instructions"},
      {R"("stream":1)", "stream"},
      {R"("truncation":"maybe")", "truncation"},
      {R"("reasoning":"low")", "reasoning"},
      {R"("reasoning":{"effort":"little"})", "reasoning.effort"},
      {R"("text":{"format":{"type":"xml"}})", "text.format.type"},
      {R"("text":{"format":{"type":"json_schema","name":"n"}})", "text.format.schema"},
      {R"("text":{"format":{"type":"json_schema","schema":{}}})", "text.format.name"},
      {R"("tools":[{"type":"web_search"}])", "tools[0].type"},
      {R"("tools":[{"type":"function"}])", "tools[0].name"},
      {R"("tools":[{"type":"function","name":"a b"}])", "tools[0].name"},
      {R"("tools":[{"type":"function","name":"x","parameters":[]}])", "tools[0].parameters"},
      {R"("tools":[{"type":"function","name":"x","strict":0}])", "tools[0].strict"},
      {R"("tool_choice":"any")", "tool_choice"},
      {R"("tool_choice":"required")", "tool_choice"},
      {tool + R"("tool_choice":{"type":"function"})", "tool_choice.name"},
      {tool + R"("tool_choice":{"type":"function","name":"y"})", "tool_choice.name"},
      {tool + R"("tool_choice":{"type":"mcp"})", "tool_choice.type"},
  };
  for (const auto& [fields, field] : cases) EXPECT_EQ(refused(with(fields)), field) << fields;
}

TEST(ResponsesRequest, refusals_of_input_name_the_item) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"7", "input[0]"},
      {R"({"content":"x"})", "input[0].role"},
      {R"({"role":"tool","content":"x"})", "input[0].role"},
      {R"({"role":"user"})", "input[0].content"},
      {R"({"role":"user","content":["x"]})", "input[0].content[0]"},
      {R"({"role":"user","content":[{"type":"input_image","image_url":"x"}]})",
       "input[0].content[0].type"},
      {R"({"role":"user","content":[{"type":"input_text"}]})", "input[0].content[0].text"},
      {R"({"type":"item_reference","id":"x"})", "input[0].type"},
      {R"({"type":"web_search_call"})", "input[0].type"},
      {R"({"type":"function_call","name":"x","arguments":""})", "input[0].call_id"},
      {R"({"type":"function_call","call_id":"c","name":"x","arguments":"7"})",
       "input[0].arguments"},
      {R"({"type":"function_call_output","call_id":"c9","output":"x"})", "input[0].call_id"},
      {kCall + R"(,{"role":"user","content":"x"},
                   {"type":"function_call_output","call_id":"c1","output":"x"})",
       "input[2].call_id"},
      {kCall + R"(,{"type":"function_call_output","call_id":"c1"})", "input[1].output"},
      {"", "input"},
  };
  for (const auto& [items, field] : cases) EXPECT_EQ(refused(with_items(items)), field) << items;
  EXPECT_EQ(refused("{}"), "input");
  EXPECT_EQ(refused(R"({"input":7})"), "input");
}

TEST(ResponsesRequest, errors_of_the_chat_request_are_respelt) {
  EXPECT_EQ(responses_error({StatusCode::kInvalidArgument, "too long", "messages"}).field, "input");
  const Status error =
      responses_error({StatusCode::kInvalidArgument, "tools[1].function.parameters: no such type",
                       "tools[1].function.parameters"});
  EXPECT_EQ(error.field, "tools[1].parameters");
  EXPECT_EQ(error.message, "tools[1].parameters: no such type");
}

}  // namespace
}  // namespace tandem
