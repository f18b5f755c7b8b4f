// Prompts, segments and ids of both families against the reference cases, with Kimi's rank file.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "text/chat.h"
#include "text/json_text.h"
#include "text/test_support.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

std::string string_or_empty(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? std::string() : it->get<std::string>();
}

std::vector<std::string> raw_tools(const Json& object) {
  std::vector<std::string> tools;
  for (const Json& tool : object.value("tools", Json::array())) tools.push_back(tool.dump());
  return tools;
}

Content content_of(const Json& message, const Json& images) {
  if (!message["content"].is_array()) return string_or_empty(message, "content");
  std::vector<ContentPart> parts;
  std::size_t next_image = 0;
  for (const Json& part : message["content"]) {
    if (part["type"] == "text") {
      parts.push_back({part["text"].get<std::string>()});
      continue;
    }
    ImageSize size;
    if (next_image < images.size()) {
      const auto prompt = images[next_image++].get<std::string>();
      std::sscanf(prompt.c_str(), "<|media_begin|>image %dx%d", &size.width, &size.height);
    }
    parts.push_back({"", size});
  }
  return parts;
}

ChatMessage message_of(const Json& json, const Json& images) {
  ChatMessage message{json["role"].get<std::string>()};
  message.content = content_of(json, images);
  message.name = string_or_empty(json, "name");
  message.reasoning = string_or_empty(json, "reasoning_content");
  message.tool_call_id = string_or_empty(json, "tool_call_id");
  message.tools = raw_tools(json);
  for (const Json& call : json.value("tool_calls", Json::array())) {
    const Json& arguments = call["function"]["arguments"];
    const std::string text =
        arguments.is_string() ? arguments.get<std::string>()
                              : to_json(parse_json(arguments.dump()).value(), JsonStyle::kSpaced);
    message.tool_calls.push_back(
        {string_or_empty(call, "id"), call["function"]["name"].get<std::string>(), text});
  }
  return message;
}

ChatRequest request_of(const Json& json) {
  ChatRequest request;
  for (const Json& message : json["messages"]) {
    request.messages.push_back(message_of(message, json.value("imgs", Json::array())));
  }
  request.tools = raw_tools(json);
  if (json.contains("effort")) {
    request.effort.reset();
    if (json["effort"].is_string()) request.effort = json["effort"].get<std::string>();
  }
  if (!json.value("thinking", true)) request.thinking = Thinking::kOff;
  if (json.value("tool_choice", "auto") == "required") request.tool_choice = ToolChoice::kRequired;
  if (json.contains("response_format")) {
    request.response_format = {ResponseFormat::Kind::kJsonSchema,
                               json["response_format"]["json_schema"]["schema"].dump()};
  }
  return request;
}

TEST(ChatGolden, both_families_render_the_reference_prompts) {
  const auto cases = reference_lines("tokenizer/chat_golden.jsonl");
  if (cases.empty()) GTEST_SKIP() << "reference data is absent";
  ASSERT_EQ(cases.size(), 22u);
  const auto k3 = reference_k3_tokenizer();
  const auto kimi_linear = reference_kimi_linear_tokenizer();
  for (const Json& c : cases) {
    SCOPED_TRACE(c["id"].get<std::string>());
    const Tokenizer& tokenizer = c["family"] == "k3" ? *k3 : *kimi_linear;
    const auto format = make_chat_format(detect_chat_family(tokenizer).value(), tokenizer);
    const auto prompt = format->render(request_of(c["request"]));
    ASSERT_TRUE(prompt) << prompt.error().message;
    EXPECT_EQ(prompt->text, c["prompt"].get<std::string>());
    EXPECT_EQ(prompt->ids, c["ids"].get<std::vector<TokenId>>());
    if (!c.contains("segments")) continue;
    std::vector<Segment> segments;
    for (const Json& s : c["segments"]) {
      segments.push_back({s[0].get<std::string>(),
                          s[1].get<bool>() ? Segment::Mode::kMarkup : Segment::Mode::kPlain});
    }
    EXPECT_EQ(prompt->segments, segments);
  }
}

}  // namespace
}  // namespace tandem
