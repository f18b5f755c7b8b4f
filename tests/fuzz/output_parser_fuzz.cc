// Any tokens may be a model's output. However its text is cut into tokens the answer is the same,
// what streams adds up to it, and nothing of the markers shows.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "chat_bytes.h"
#include "text/answer_stream.h"
#include "text/utf8.h"

namespace {

using namespace tandem;
using Kind = OutputEvent::Kind;

struct Family {
  explicit Family(ChatFamily which) : family(which), tokenizer(make_pair_tokenizer(which)) {}

  const ChatFamily family;
  const std::unique_ptr<Tokenizer> tokenizer;
  const std::vector<std::string> names = special_names(family);
};

constexpr std::array<std::string_view, 24> kTexts = {
    "think",     "response", "tools",    "call tool=\"f\" index=\"1\"",
    "call tool", "message",  "argument", "argument key=\"k\" type=\"string\"",
    "json",      "f",        "g",        "argument key=\"n\" type=\"number\"",
    ":0",        "{\"a\":",  "1}",       "functions.f:0",
    " ",         "\n",       "🫠",     "क्षि",
    "STOP",      "\"",       "ST",       "<|open|>"};

// An output as the tokens of single bytes and markers.
std::vector<TokenId> read_output(const Family& family, InputBytes* input) {
  std::vector<TokenId> ids;
  const auto text = [&](std::string_view bytes) {
    for (const char c : bytes) ids.push_back(static_cast<unsigned char>(c));
  };
  const auto marker = [&](const char* name) {
    ids.push_back(family.tokenizer->id_of(name).value());
  };
  while (!input->empty()) {
    const std::size_t choice = input->below(64);
    if (choice < family.names.size()) {
      ids.push_back(kFirstSpecial + static_cast<TokenId>(choice));
    } else if (choice < 32) {
      ids.push_back(input->next());
    } else if (choice < 40 && family.family == ChatFamily::kK3) {
      marker(input->flip() ? "<|open|>" : "<|close|>");
      text(kTexts[input->below(12)]);
      marker("<|sep|>");
    } else {
      text(kTexts[choice % kTexts.size()]);
    }
  }
  return ids;
}

// Joins neighbouring bytes to pairs where `bits` say so.
std::vector<TokenId> cut_otherwise(const std::vector<TokenId>& ids, std::uint64_t bits) {
  std::vector<TokenId> out;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    if (i + 1 < ids.size() && ids[i] < kFirstPair && ids[i + 1] < kFirstPair && bits >> 63 == 1) {
      out.push_back(kFirstPair + 256 * ids[i] + ids[i + 1]);
      ++i;
    } else {
      out.push_back(ids[i]);
    }
  }
  return out;
}

struct Read {
  Answer answer;
  std::vector<OutputEvent> events;
  AnswerEnd end = AnswerEnd::kStop;
  std::string stop;
};

Read read(const Family& family, const OutputParserOptions& options,
          const std::vector<std::string>& stops, const std::vector<TokenId>& ids) {
  AnswerStream stream(make_output_parser(family.family, *family.tokenizer, options), stops);
  Read result;
  const auto take = [&](const std::vector<OutputEvent>& events) {
    for (const OutputEvent& event : events) result.answer.add(event);
    result.events.insert(result.events.end(), events.begin(), events.end());
  };
  for (const TokenId id : ids) take(stream.feed(id));
  OutputParser::Finish finish = stream.finish(AnswerEnd::kLength);
  take(finish.events);
  result.end = finish.end;
  result.stop = stream.stop_string();
  return result;
}

void check_equal(const Read& a, const Read& b) {
  CHECK(a.answer.reasoning == b.answer.reasoning, "'{}' / '{}'", a.answer.reasoning,
        b.answer.reasoning);
  CHECK(a.answer.content == b.answer.content, "'{}' / '{}'", a.answer.content, b.answer.content);
  CHECK(a.answer.tool_calls.size() == b.answer.tool_calls.size(), "{} / {} calls",
        a.answer.tool_calls.size(), b.answer.tool_calls.size());
  for (std::size_t i = 0; i < a.answer.tool_calls.size(); ++i) {
    const ToolCall &x = a.answer.tool_calls[i], &y = b.answer.tool_calls[i];
    CHECK(x.id == y.id && x.name == y.name, "{} {} / {} {}", x.id, x.name, y.id, y.name);
    CHECK(x.arguments == y.arguments, "'{}' / '{}'", x.arguments, y.arguments);
  }
  CHECK(a.end == b.end && a.stop == b.stop, "'{}' / '{}'", a.stop, b.stop);
}

// Calls come one after another, text is whole characters, an end without a call is a plain one.
void check_events(const Read& read, bool has_tools) {
  int open = -1, begun = 0;
  for (const OutputEvent& event : read.events) {
    CHECK(is_valid_utf8(event.text) && is_valid_utf8(event.id) && is_valid_utf8(event.name),
          "'{}' '{}' '{}'", event.text, event.id, event.name);
    if (event.kind == Kind::kToolCallBegin) {
      CHECK(has_tools && event.call == begun && !event.name.empty(), "call {}", event.call);
      open = begun++;
    } else if (event.kind == Kind::kToolCallArguments || event.kind == Kind::kToolCallEnd) {
      CHECK(event.call == open, "call {} while {} is open", event.call, open);
      if (event.kind == Kind::kToolCallEnd) open = -1;
    } else if (event.kind == Kind::kContent || event.kind == Kind::kReasoning) {
      CHECK(!event.text.empty(), "a delta of nothing");
    }
  }
  CHECK((read.end == AnswerEnd::kToolCalls) == !read.answer.tool_calls.empty(), "{} calls",
        read.answer.tool_calls.size());
}

// A stop string cuts text off, and changes none of what comes before. It does not reach across what
// stands between two texts.
void check_stopped(const Read& stopped, const Read& whole, const std::vector<std::string>& stops) {
  CHECK(whole.answer.reasoning.starts_with(stopped.answer.reasoning), "'{}'",
        stopped.answer.reasoning);
  CHECK(whole.answer.content.starts_with(stopped.answer.content), "'{}'", stopped.answer.content);
  std::string text;
  Kind kind = Kind::kContent;
  for (const OutputEvent& event : stopped.events) {
    if (event.kind != kind) text.clear();
    kind = event.kind;
    if (kind != Kind::kContent && kind != Kind::kReasoning) continue;
    text += event.text;
    for (const std::string& stop : stops) {
      CHECK(text.find(stop) == std::string::npos, "'{}' in '{}'", stop, text);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Family k3(ChatFamily::kK3), kimi_linear(ChatFamily::kKimiLinear);
  if (size > 4096) return 0;
  InputBytes input(data, size);
  const Family& family = input.flip() ? k3 : kimi_linear;
  OutputParserOptions options;
  if (input.flip()) options.start = OutputStart::kThinking;
  options.tool_calls_before = static_cast<int>(input.below(3));
  const std::size_t tools = input.below(3);
  if (tools > 0) options.tool_names.emplace_back("f");
  if (tools > 1) options.tool_names.emplace_back("g");
  const std::uint64_t bits = input.next();

  const std::vector<TokenId> bytes = read_output(family, &input);
  const std::vector<TokenId> pairs = cut_otherwise(bytes, bits);
  const Read whole = read(family, options, {}, bytes);
  check_events(whole, tools > 0);
  check_equal(whole, read(family, options, {}, pairs));

  const std::vector<std::string> stops = {"STOP", "\n\n", "🫠"};
  const Read stopped = read(family, options, stops, bytes);
  check_events(stopped, tools > 0);
  check_equal(stopped, read(family, options, stops, pairs));
  check_stopped(stopped, whole, stops);
  return 0;
}
