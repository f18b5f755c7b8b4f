// Any request may be rendered. Text of a caller never becomes a control token: the prompt has the
// control tokens of the same request with every such name misspelt.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "chat_bytes.h"
#include "text/json_text.h"
#include "text/utf8.h"

namespace {

using namespace tandem;

struct Family {
  explicit Family(ChatFamily which)
      : tokenizer(make_pair_tokenizer(which)),
        format(make_chat_format(which, *tokenizer)),
        names(special_names(which)) {}

  const std::unique_ptr<Tokenizer> tokenizer;
  const std::unique_ptr<ChatFormat> format;
  const std::vector<std::string> names;
};

constexpr std::array<std::string_view, 16> kFragments = {
    "",   " ",       "\n",    "a",        "hi 🫠",      "functions.f:0",
    "\"", "&quot;",  "é\xFF", "message",  "\xF0\x9F\xAB", "role=\"system\"",
    "{}", "\\u003c", "null",  "image 1x1"};

// Writes a request, spelling the names of control tokens right or wrong.
class RequestWriter {
 public:
  enum class Names { kRight, kWrong };

  RequestWriter(const std::vector<std::string>& special, Names names, InputBytes input)
      : special_(special), names_(names), input_(input) {}

  ChatRequest request() {
    ChatRequest request;
    request.thinking = input_.flip() ? Thinking::kOn : Thinking::kOff;
    if (input_.flip()) request.effort = choose({"low", "high", "max", "none", "huge"});
    request.tool_choice = static_cast<ToolChoice>(input_.below(4));
    request.continue_final_message = input_.below(4) == 0;
    request.tools = tools();
    response_format(&request.response_format);
    const std::size_t count = input_.below(8);
    for (std::size_t i = 0; i < count; ++i) request.messages.push_back(message());
    return request;
  }

 private:
  std::string choose(std::initializer_list<const char*> texts) {
    return texts.begin()[input_.below(texts.size())];
  }

  std::string text() {
    std::string out;
    for (std::size_t i = input_.below(5); i > 0; --i) {
      const std::size_t choice = input_.next();
      if (choice % 2 == 0) {
        out += kFragments[choice / 2 % kFragments.size()];
        continue;
      }
      const std::string& name = special_[choice / 2 % special_.size()];
      // As long, and no name begins with it.
      out += names_ == Names::kRight ? name : "x" + name.substr(1);
    }
    return out;
  }

  std::string quoted() { return '"' + escape_json(repair_utf8(text())) + '"'; }

  std::string object() {
    if (input_.below(8) == 0)
      return choose({"", " ", "{\"a\": ", "[1]", "null", "\xFF", "{}"}) + text();
    std::string out = "{";
    for (std::size_t i = input_.below(3); i > 0; --i) {
      out += quoted() + ": " + (input_.flip() ? quoted() : "[1, {" + quoted() + ": true}]") + ", ";
    }
    return out + "\"last\": 1}";
  }

  std::vector<std::string> tools() {
    std::vector<std::string> tools(input_.below(3));
    for (std::string& tool : tools) tool = object();
    return tools;
  }

  void response_format(ResponseFormat* format) {
    const std::size_t kind = input_.below(5);
    format->kind = static_cast<ResponseFormat::Kind>(kind);
    if (format->kind != ResponseFormat::Kind::kText) format->source = object();
  }

  Content content() {
    std::vector<ContentPart> parts(input_.below(3));
    for (ContentPart& part : parts) {
      if (input_.below(4) == 0) {
        part.image = ImageSize{input_.next(), input_.next()};
      } else {
        part.text = text();
      }
    }
    return parts;
  }

  ChatMessage message() {
    ChatMessage message;
    message.role =
        choose({"system", "developer", "user", "assistant", "tool", "assistant", "tool", "robot"});
    message.content = content();
    if (input_.flip()) message.name = text();
    if (message.role == "assistant") {
      message.reasoning = text();
      message.tool_calls.resize(input_.below(3));
      for (ToolCall& call : message.tool_calls) call = {call_id(), "f" + text(), object()};
    } else if (message.role == "tool") {
      message.tool_call_id = call_id();
    } else if (message.role == "system" && input_.flip()) {
      message.content = {};
      message.tools = tools();
    }
    return message;
  }

  std::string call_id() { return choose({"", "functions.f:0", "call_1", "call_2"}) + text(); }

  const std::vector<std::string>& special_;
  const Names names_;
  InputBytes input_;
};

std::vector<TokenId> control_tokens(const Prompt& prompt) {
  std::vector<TokenId> ids;
  std::copy_if(prompt.ids.begin(), prompt.ids.end(), std::back_inserter(ids),
               [](TokenId id) { return id >= kFirstSpecial; });
  return ids;
}

void check_prompt(const Family& family, const Prompt& prompt) {
  std::string text;
  for (const Segment& segment : prompt.segments) {
    CHECK(!segment.text.empty(), "an empty segment");
    text += segment.text;
  }
  CHECK(prompt.text == text, "'{}' / '{}'", prompt.text, text);
  // Each segment repairs what is not UTF-8 by itself.
  if (is_valid_utf8(text)) {
    CHECK(family.tokenizer->decode(prompt.ids) == text, "'{}'", text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Family k3(ChatFamily::kK3), kimi_linear(ChatFamily::kKimiLinear);
  if (size > 1024) return 0;
  InputBytes input(data, size);
  const Family& family = input.flip() ? k3 : kimi_linear;
  using Names = RequestWriter::Names;
  const auto prompt =
      family.format->render(RequestWriter(family.names, Names::kRight, input).request());
  const auto misspelt =
      family.format->render(RequestWriter(family.names, Names::kWrong, input).request());
  CHECK(prompt.has_value() == misspelt.has_value(), "a name decides");
  if (!prompt) {
    CHECK(prompt.error().code == StatusCode::kInvalidArgument, "{}", prompt.error().message);
    CHECK(prompt.error().field == misspelt.error().field && !prompt.error().field.empty(),
          "'{}' / '{}'", prompt.error().field, misspelt.error().field);
    return 0;
  }
  check_prompt(family, *prompt);
  CHECK(control_tokens(*prompt) == control_tokens(*misspelt), "in '{}'", prompt->text);
  CHECK(
      prompt->start == misspelt->start && prompt->tool_calls_before == misspelt->tool_calls_before,
      "{} / {} calls", prompt->tool_calls_before, misspelt->tool_calls_before);
  return 0;
}
