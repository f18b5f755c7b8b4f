#include "text/grammar/answer_grammar.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "text/grammar/matcher.h"
#include "text/grammar/random_schema.h"
#include "text/grammar/schema_validator.h"
#include "text/output_parser.h"
#include "text/test_support.h"

namespace tandem {
namespace {

using Calls = AnswerShape::Calls;
using FormatKind = ResponseFormat::Kind;

// One token a byte and one a marker.
struct Family {
  ChatFamily chat;
  std::unique_ptr<Tokenizer> tokenizer;
  Grammar::Vocabulary vocabulary = GrammarVocabulary::create(*tokenizer, stop_ids(*tokenizer));

  Result<Grammar::Pointer> compile(const AnswerShape& shape) const {
    return compile_answer_grammar(shape, chat, *tokenizer, vocabulary);
  }
  // Whether `text`, its markers as tokens, is a whole answer of that shape.
  bool matches(const AnswerShape& shape, std::string_view text) const {
    const auto grammar = compile(shape);
    EXPECT_TRUE(grammar.has_value()) << grammar.error().message;
    if (!grammar) return false;
    GrammarMatcher matcher(*grammar);
    for (const TokenId id : tokenizer->encode_markup(text)) {
      if (!matcher.accept(id)) return false;
    }
    return matcher.can_stop();
  }
};

const Family& k3() {
  static const Family family{ChatFamily::kK3, byte_k3_tokenizer()};
  return family;
}
const Family& kimi_linear() {
  static const Family family{ChatFamily::kKimiLinear, byte_kimi_linear_tokenizer()};
  return family;
}

std::string open(const std::string& tag) { return "<|open|>" + tag + "<|sep|>"; }
std::string close(const std::string& tag) { return "<|close|>" + tag + "<|sep|>"; }
std::string response(const std::string& text) {
  return open("response") + text + close("response");
}
std::string argument(const std::string& key, const std::string& type, const std::string& value) {
  return open("argument key=\"" + key + "\" type=\"" + type + "\"") + value + close("argument");
}
std::string call(const std::string& name, const std::string& arguments, int index = 1) {
  return open("call tool=\"" + name + "\" index=\"" + std::to_string(index) + "\"") + arguments +
         close("call");
}
std::string tools(const std::string& calls) { return open("tools") + calls + close("tools"); }
const std::string kEnd = close("message");

const DeclaredTool kTimer = {
    .name = "set_timer",
    .parameters = R"({"type": "object", "properties": {"minutes": {"type": "integer", "minimum": 1},
      "label": {"type": "string", "maxLength": 5}}, "required": ["minutes"],
      "additionalProperties": false})",
    .strict = true,
    .field = "tools[0]"};
const DeclaredTool kFree = {.name = "a&b", .field = "tools[1]"};

TEST(K3AnswerGrammar, thinking_is_free_and_the_response_follows_the_format) {
  const AnswerShape shape{.start = OutputStart::kThinking, .format = {FormatKind::kJsonObject}};
  for (const char* thought : {"", "Hm. {not json\n", "\x80half"}) {
    EXPECT_TRUE(k3().matches(shape, thought + close("think") + response("{\"a\": 1}") + kEnd));
  }
  EXPECT_FALSE(k3().matches(shape, "Hm"));                          // never answered
  EXPECT_FALSE(k3().matches(shape, "Hm" + response("{}") + kEnd));  // think left open
  EXPECT_FALSE(k3().matches(shape, close("think") + response("no") + kEnd));
  EXPECT_FALSE(k3().matches(shape, close("think") + "gap" + response("{}") + kEnd));
  EXPECT_FALSE(k3().matches(shape, close("think") + response("{}")));
  EXPECT_FALSE(k3().matches(shape, close("think") + response("{}") + tools(call("f", "")) + kEnd));
}

TEST(K3AnswerGrammar, a_response_that_is_open_goes_on) {
  const AnswerShape shape{.format = {FormatKind::kRegex, "[ab]+"}};
  EXPECT_TRUE(k3().matches(shape, "abba" + close("response") + kEnd));
  EXPECT_FALSE(k3().matches(shape, "abc" + close("response") + kEnd));
  EXPECT_FALSE(k3().matches(shape, close("response") + kEnd));
}

TEST(K3AnswerGrammar, text_that_spells_a_marker_is_text) {
  const AnswerShape shape{.format = {FormatKind::kRegex, ".*"}};
  GrammarMatcher matcher(*k3().compile(shape));
  for (const TokenId id : k3().tokenizer->encode_plain("<|close|>response<|sep|>")) {
    EXPECT_TRUE(matcher.accept(id));
  }
  EXPECT_FALSE(matcher.can_stop());
}

TEST(K3AnswerGrammar, a_required_call_has_the_tools_typed_arguments) {
  const AnswerShape shape{
      .start = OutputStart::kThinking, .calls = Calls::kRequired, .tools = {kTimer, kFree}};
  const auto answers = [&](const std::string& body) {
    return k3().matches(shape, "so" + close("think") + body + kEnd);
  };
  const std::string five = argument("minutes", "number", "5");
  EXPECT_TRUE(answers(tools(call("set_timer", five))));
  EXPECT_TRUE(answers(response("Setting it.") + tools(call("set_timer", five))));
  EXPECT_TRUE(answers(tools(call("set_timer", five + argument("label", "string", "a\"<\n")))));
  EXPECT_TRUE(answers(tools(call("set_timer", five) + call("a&amp;b", "", 2))));
  EXPECT_TRUE(answers(
      tools(call("a&amp;b", argument("any", "array", "[1, {}]") + argument("x", "string", "raw") +
                                argument("n", "null", "null")))));
  EXPECT_FALSE(answers(response("I will not.")));
  EXPECT_FALSE(answers(tools("")));
  EXPECT_FALSE(answers(tools(call("set_timer", ""))));                                  // missing
  EXPECT_FALSE(answers(tools(call("set_timer", argument("minutes", "number", "0")))));  // minimum
  EXPECT_FALSE(answers(tools(call("set_timer", argument("minutes", "string", "5")))));
  EXPECT_FALSE(answers(tools(call("set_timer", argument("minutes", "number", "5.5")))));
  EXPECT_FALSE(answers(tools(call("set_timer", five + argument("label", "string", "longer")))));
  EXPECT_FALSE(answers(tools(call("set_timer", five + argument("other", "string", "x")))));
  EXPECT_FALSE(answers(tools(call("set_timer", five + five))));
  EXPECT_FALSE(answers(tools(call("unknown", ""))));
  EXPECT_FALSE(answers(tools(call("a&b", ""))));  // not how a name is written
  EXPECT_FALSE(answers(tools(call("set_timer", five, 0))));
}

TEST(K3AnswerGrammar, one_call_only_and_calls_that_are_merely_allowed) {
  AnswerShape shape{.calls = Calls::kAllowed, .one_call = true, .tools = {kFree}};
  const std::string one = call("a&amp;b", "");
  const auto answers = [&](const std::string& body) {
    return k3().matches(shape, body + close("response") + kEnd) ||
           k3().matches(shape, close("response") + body + kEnd);
  };
  EXPECT_TRUE(answers("text"));
  EXPECT_TRUE(answers(tools(one)));
  EXPECT_FALSE(answers(tools(one + one)));
  EXPECT_FALSE(answers(tools(one) + tools(one)));
  shape.one_call = false;
  EXPECT_TRUE(answers(tools(one + one)));
  shape.format = {FormatKind::kJsonObject};
  EXPECT_TRUE(answers("{}"));
  EXPECT_FALSE(answers("text"));
  EXPECT_TRUE(answers(tools(one)));
}

TEST(KimiLinearAnswerGrammar, content_and_calls) {
  AnswerShape shape{.calls = Calls::kRequired,
                    .tools = {kTimer, {.name = "g", .field = "tools[1]"}}};
  const auto one = [](const std::string& id, const std::string& json) {
    return "<|tool_call_begin|>functions." + id + "<|tool_call_argument_begin|>" + json +
           "<|tool_call_end|>";
  };
  const auto section = [](const std::string& calls) {
    return "<|tool_calls_section_begin|>" + calls + "<|tool_calls_section_end|>";
  };
  const auto answers = [&](const std::string& text) { return kimi_linear().matches(shape, text); };
  EXPECT_TRUE(answers(section(one("set_timer:0", "{\"minutes\": 5}"))));
  EXPECT_TRUE(
      answers("I do." + section(one("set_timer:10", "{\"minutes\":5}") + one("g:11", "{}"))));
  EXPECT_FALSE(answers(""));
  EXPECT_FALSE(answers(section(one("set_timer:0", "{}"))));
  EXPECT_FALSE(answers(section(one("g:0", "7"))));
  EXPECT_FALSE(answers(section(one("h:0", "{}"))));
  shape.calls = Calls::kAllowed;
  shape.format = {FormatKind::kJsonSchema, R"({"enum": ["a", 2]})"};
  EXPECT_TRUE(answers("\"a\""));
  EXPECT_TRUE(answers(section(one("g:0", "{}"))));
  EXPECT_FALSE(answers("a"));
  EXPECT_FALSE(answers("\"a\"" + section(one("g:0", "{}"))));
}

TEST(AnswerGrammar, errors_name_the_field) {
  const auto error = [](const AnswerShape& shape) {
    const auto made = k3().compile(shape);
    return made ? Status{} : made.error();
  };
  const ResponseFormat bad_schema = {FormatKind::kJsonSchema,
                                     R"({"properties": {"a": {"not": {}}}})",
                                     "response_format.json_schema.schema"};
  EXPECT_EQ(error({.format = bad_schema}).field, "response_format.json_schema.schema");
  EXPECT_EQ(error({.format = bad_schema})
                .message.find("response_format.json_schema.schema: #/properties/a/not"),
            0u);
  EXPECT_EQ(error({.format = {FormatKind::kRegex, "[", "regex"}}).field, "regex");
  EXPECT_EQ(error({.format = {FormatKind::kEbnf, "root ::= x", "ebnf"}}).field, "ebnf");
  EXPECT_EQ(error({.format = {FormatKind::kEbnf, "root ::= root", "ebnf"}}).field, "ebnf");
  DeclaredTool tool = {
      .name = "f", .parameters = R"({"if": {}})", .strict = true, .field = "tools[3]"};
  EXPECT_EQ(error({.calls = Calls::kRequired, .tools = {tool}}).field,
            "tools[3].function.parameters");
  tool.parameters = R"({"properties": {"": {"type": "integer"}}, "required": [""]})";
  EXPECT_EQ(error({.calls = Calls::kRequired, .tools = {tool}}).field,
            "tools[3].function.parameters");
  tool.parameters = R"({"if": {}})";
  tool.strict = false;  // then such arguments are free
  EXPECT_TRUE(
      k3().matches({.calls = Calls::kRequired, .tools = {tool}},
                   close("response") + tools(call("f", argument("x", "number", "1"))) + kEnd));
}

TEST(AnswerGrammar, a_request_without_demands_has_no_shape) {
  const std::string plain = R"({"type": "function", "function": {"name": "f"}})";
  const std::string strict = R"({"type": "function", "function": {"name": "g", "strict": true,
    "parameters": {"type": "object"}}})";
  ChatRequest request;
  const auto shape = [&] { return *answer_shape(request, OutputStart::kThinking); };
  EXPECT_FALSE(shape());
  request.tools = {plain};
  EXPECT_FALSE(shape());
  request.parallel_tool_calls = false;
  EXPECT_TRUE(shape()->one_call);
  request.parallel_tool_calls = true;
  request.tools.push_back(strict);
  EXPECT_EQ(shape()->calls, Calls::kAllowed);
  EXPECT_EQ(shape()->tools.size(), 2u);
  EXPECT_EQ(shape()->tools[1].parameters, R"({"type": "object"})");
  request.tool_choice = ToolChoice::kNamed;
  request.named_tool = "f";
  EXPECT_EQ(shape()->calls, Calls::kRequired);
  EXPECT_EQ(shape()->tools.size(), 1u);
  request.named_tool = "h";
  EXPECT_EQ(answer_shape(request, OutputStart::kThinking).error().field, "tool_choice");
  request.tool_choice = ToolChoice::kNone;
  EXPECT_FALSE(shape());
  request.response_format = {FormatKind::kJsonObject};
  EXPECT_EQ(shape()->calls, Calls::kNone);
  request.continue_final_message = true;
  EXPECT_EQ(answer_shape(request, OutputStart::kResponse).error().field, "response_format");
}

TEST(AnswerGrammar, keys_tell_shapes_apart) {
  const AnswerShape base{.calls = Calls::kRequired, .tools = {kTimer}};
  std::vector<AnswerShape> shapes(7, base);
  shapes[1].calls = Calls::kAllowed;
  shapes[2].one_call = true;
  shapes[3].tools[0].strict = false;
  shapes[4].tools[0].name = "set";
  shapes[5].start = OutputStart::kThinking;
  shapes[6].format = {FormatKind::kRegex, "a"};
  std::vector<std::string> keys;
  for (const AnswerShape& shape : shapes) keys.push_back(shape.key());
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
  EXPECT_EQ(base.key(), AnswerShape(base).key());
}

// Tokens of an answer that nobody thought about; after `patience` tokens mostly what ends things.
std::optional<std::vector<TokenId>> wander(const Family& family, const Grammar::Pointer& grammar,
                                           std::mt19937& random, std::size_t patience) {
  GrammarMatcher matcher(grammar);
  std::vector<std::uint64_t> mask(matcher.mask_words());
  std::vector<TokenId> ids;
  while (ids.size() < 30 * patience) {
    if (matcher.can_stop()) return ids;
    matcher.fill_mask(mask);
    std::vector<TokenId> allowed;
    std::vector<TokenId> ending;  // markers, quotes and brackets
    for (TokenId id = 0; id < family.tokenizer->vocab_size(); ++id) {
      if (!grammar::has_bit(mask, id)) continue;
      allowed.push_back(id);
      const std::string_view bytes = family.tokenizer->token_bytes(id);
      if (id >= family.tokenizer->rank_count() || bytes == "\"" || bytes == "}" || bytes == "]") {
        ending.push_back(id);
      }
    }
    if (allowed.empty()) return std::nullopt;
    const bool is_late = ids.size() > patience && random() % 8 != 0;
    const auto& from = is_late && !ending.empty() ? ending : allowed;
    const TokenId id = from[random() % from.size()];
    if (!matcher.accept(id)) return std::nullopt;
    ids.push_back(id);
  }
  return ids;
}

TEST(AnswerGrammar, what_it_lets_through_parses_to_calls_that_are_valid_under_their_schemas) {
  std::mt19937 random(11);
  int checked = 0;
  for (int round = 0; round < 60; ++round) {
    nlohmann::ordered_json inner = grammar_testing::random_schema(random);
    nlohmann::ordered_json schema = {{"type", "object"}, {"$defs", inner["$defs"]}};
    inner.erase("$defs");
    schema["properties"] = {{"p0", inner}, {"p1", {{"type", "string"}}}};
    schema["required"] = nlohmann::ordered_json::array({"p0"});
    if (round % 2 == 0) schema["additionalProperties"] = false;
    const Family& family = round % 3 == 0 ? kimi_linear() : k3();
    const AnswerShape shape{.start = OutputStart::kResponse,
                            .calls = Calls::kRequired,
                            .tools = {{.name = "f", .parameters = schema.dump(), .strict = true}}};
    const auto grammar = family.compile(shape);
    if (!grammar) continue;  // random schemas may contradict themselves
    const auto ids = wander(family, *grammar, random, 40);
    ASSERT_TRUE(ids.has_value()) << schema.dump();
    const auto parser = make_output_parser(family.chat, *family.tokenizer,
                                           {.start = OutputStart::kResponse, .tool_names = {"f"}});
    Answer answer;
    for (const TokenId id : *ids) {
      for (const OutputEvent& event : parser->feed(id)) answer.add(event);
    }
    const auto finish = parser->finish(AnswerEnd::kStop);
    for (const OutputEvent& event : finish.events) answer.add(event);
    for (const ToolCall& one : answer.tool_calls) {
      const auto value = nlohmann::json::parse(one.arguments);
      const nlohmann::json plain = schema;
      EXPECT_EQ(grammar_testing::violation(value, plain, plain), "") << one.arguments << "\n"
                                                                     << schema.dump();
      ++checked;
    }
  }
  EXPECT_GT(checked, 50);
}

}  // namespace
}  // namespace tandem
