// Chat messages -> the prompt that a model family was trained on.
//
// A prompt is rendered segment by segment: literals of the template in markup mode, everything that
// comes from the caller in plain mode. Text of a caller can therefore never become a control token.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "text/tokenizer.h"

namespace tandem {

struct ImageSize {
  int width = 0, height = 0;  // pixels
};

// A run of text or one image.
struct ContentPart {
  std::string text;
  std::optional<ImageSize> image = {};
};

// A message's content: `message.content = "hi"`, or several parts.
struct Content {
  Content() = default;
  Content(std::string text) : parts{{std::move(text)}} {}  // NOLINT: implicit on purpose
  Content(const char* text) : Content(std::string(text)) {}
  Content(std::vector<ContentPart> several) : parts(std::move(several)) {}

  // True if there is no image and no character.
  bool empty() const;

  std::vector<ContentPart> parts;
};

struct ToolCall {
  std::string id;
  std::string name;
  // JSON text as the model wrote it. A client's object is respelt first: to_json(…, kSpaced).
  std::string arguments;
};

struct ChatMessage {
  std::string role;  // system, developer, user, assistant or tool
  Content content = {};
  std::string name = {};                  // the author; for role tool the tool
  std::string reasoning = {};             // assistant: its thinking
  std::vector<ToolCall> tool_calls = {};  // assistant
  std::string tool_call_id = {};          // tool: the call that it answers
  std::vector<std::string> tools = {};    // system: tools added from here on, each a JSON object
};

enum class Thinking { kOn, kOff };
enum class ToolChoice { kAuto, kNone, kRequired, kNamed };

// What the answer's content has to look like. K3's prompt tells the model of the JSON kinds.
struct ResponseFormat {
  enum class Kind { kText, kJsonObject, kJsonSchema, kRegex, kEbnf };
  Kind kind = Kind::kText;
  // The schema alone as JSON text, the expression, or the grammar (docs/structured-output.md).
  std::string source = {};
  std::string field = "response_format";  // where the client put it, for errors
};

struct ChatRequest {
  std::vector<ChatMessage> messages;
  std::vector<std::string> tools = {};  // each a JSON object as the client sent it
  // low, high, max; medium is read as high, minimal as low, xhigh as max, none as thinking off.
  // nullopt ("unset"): the prompt says nothing about effort, the model still thinks.
  std::optional<std::string> effort = "max";
  Thinking thinking = Thinking::kOn;
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string named_tool = {};      // kNamed: the one to be called
  bool parallel_tool_calls = true;  // false: at most one call
  ResponseFormat response_format = {};
  // The last message is an assistant's and is left open for the model to go on.
  bool continue_final_message = false;
};

// A tool that a request or one of its system messages declares.
struct DeclaredTool {
  std::string name;
  std::string parameters = {};  // JSON schema; empty: none was given
  bool strict = false;
  std::string field = {};  // where it stands: "tools[2]"
};
// In their order; those without a name, which rendering refuses, are left out.
std::vector<DeclaredTool> declared_tools(const ChatRequest& request);

// One piece of a prompt, encoded by itself.
struct Segment {
  enum class Mode { kPlain, kMarkup };
  std::string text;
  Mode mode = Mode::kPlain;
  bool operator==(const Segment&) const = default;
};

// Where the model's output begins.
enum class OutputStart { kThinking, kResponse };

struct Prompt {
  std::vector<TokenId> ids;
  std::string text;  // the segments joined
  std::vector<Segment> segments;
  OutputStart start = OutputStart::kResponse;
  int tool_calls_before = 0;  // tool calls in the messages, for the ids of new ones
};

// Immutable, thread-safe.
class ChatFormat {
 public:
  virtual ~ChatFormat() = default;
  // Errors are the caller's and carry Status::field, such as "messages[2].role". No BOS is added.
  virtual Result<Prompt> render(const ChatRequest& request) const = 0;
};

enum class ChatFamily { kK3, kKimiLinear };

// The family whose structural tokens the tokenizer names.
Result<ChatFamily> detect_chat_family(const Tokenizer& tokenizer);

// `tokenizer` must outlive the format.
std::unique_ptr<ChatFormat> make_chat_format(ChatFamily family, const Tokenizer& tokenizer);

// Ids that end an answer, by name: the family's end of message, [EOS] and [EOT]. A checkpoint's
// generation_config.json may add others.
std::vector<TokenId> stop_ids(const Tokenizer& tokenizer);

}  // namespace tandem
