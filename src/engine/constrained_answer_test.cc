// Answers of the bundled model that have to follow a grammar, through the engine.
#include <gtest/gtest.h>

#include <future>
#include <nlohmann/json.hpp>

#include "engine/served_model.h"

namespace tandem {
namespace {

using FormatKind = ResponseFormat::Kind;

constexpr const char* kTimer = R"({"type": "function", "function": {"name": "set_timer",
  "description": "Start a timer.", "parameters": {"type": "object",
  "properties": {"minutes": {"type": "integer", "minimum": 1, "maximum": 60},
                 "unit": {"enum": ["s", "min"]}},
  "required": ["minutes", "unit"], "additionalProperties": false}}})";

struct Outcome {
  Answer answer;
  AnswerResult result;
};

class ConstrainedAnswerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const SystemClock clock;
    auto loaded =
        load_served_model({.folder = std::filesystem::path(TANDEM_SOURCE_DIR) / "models/demo",
                           .engine = {.threads = 1}},
                          clock);
    ASSERT_TRUE(loaded) << loaded.error().message;
    model_ = *std::move(loaded);
  }
  static void TearDownTestSuite() { model_ = nullptr; }

  static ChatRequest ask(const std::string& question) {
    ChatRequest request;
    request.messages = {{"user", question}};
    return request;
  }

  Result<Grammar::Pointer> compiled_grammar(const ChatRequest& request, const Prompt& prompt) {
    const auto source = model_->chat_grammar(request, prompt);
    return source.and_then([&](const GrammarSource& s) { return model_->compiled(s); });
  }
  Result<Grammar::Pointer> compiled_text_grammar(const ResponseFormat& format) {
    return model_->compiled(model_->text_grammar(format));
  }

  std::future<Outcome> submit(const ChatRequest& request, const SamplingParams& sampling,
                              std::int64_t max_tokens = 400) {
    const auto prompt = model_->chat_format->render(request);
    EXPECT_TRUE(prompt) << prompt.error().message;
    const auto grammar = compiled_grammar(request, *prompt);
    EXPECT_TRUE(grammar) << grammar.error().message;
    auto answer = std::make_shared<Answer>();
    auto promise = std::make_shared<std::promise<Outcome>>();
    auto sink = std::make_unique<AnswerSink>(
        model_->answer_stream(*prompt, request, {}),
        [answer](const std::vector<OutputEvent>& events, const SampledToken*) {
          for (const OutputEvent& event : events) answer->add(event);
        },
        [answer, promise](const AnswerResult& result) {
          promise->set_value({*answer, result});
        });
    auto future = promise->get_future();
    const auto id = model_->engine->submit({.prompt = prompt->ids,
                                            .sampling = sampling,
                                            .max_tokens = max_tokens,
                                            .stop_ids = model_->stop_ids,
                                            .constraint = model_->constraint(*grammar)},
                                           std::move(sink));
    EXPECT_TRUE(id) << id.error().message;
    return future;
  }

  static std::unique_ptr<ServedModel> model_;
};

std::unique_ptr<ServedModel> ConstrainedAnswerTest::model_;

TEST_F(ConstrainedAnswerTest, the_response_is_json_and_the_thinking_stays_free) {
  ChatRequest request = ask("What is 4738 + 2965?");
  const auto free = submit(request, {.temperature = 0}).get();
  auto neighbour = submit(request, {.temperature = 0});
  request.response_format = {FormatKind::kJsonSchema,
                             R"({"type": "object", "properties": {"sum": {"type": "integer"}},
                                 "required": ["sum"], "additionalProperties": false})"};
  const Outcome bound = submit(request, {.temperature = 0}).get();
  EXPECT_EQ(bound.result.end, AnswerEnd::kStop);
  const auto value = nlohmann::json::parse(bound.answer.content);
  EXPECT_TRUE(value.at("sum").is_number_integer()) << bound.answer.content;
  EXPECT_FALSE(bound.answer.reasoning.empty());
  // Nobody else notices.
  const Outcome beside = neighbour.get();
  EXPECT_EQ(beside.answer.content, free.answer.content);
  EXPECT_EQ(beside.answer.reasoning, free.answer.reasoning);
}

TEST_F(ConstrainedAnswerTest, random_answers_follow_expressions_and_grammars) {
  ChatRequest request = ask("Tell me a short story.");
  request.thinking = Thinking::kOff;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    request.response_format = {FormatKind::kRegex, "[a-f]{8}-[0-9]{4}"};
    const SamplingParams sampling{.temperature = 1.5f, .seed = seed};
    const std::string matched = submit(request, sampling).get().answer.content;
    EXPECT_EQ(matched.size(), 13u) << matched;
    EXPECT_EQ(matched.find_first_not_of("abcdef"), 8u) << matched;
    request.response_format = {FormatKind::kEbnf, "root ::= \"yes\" | \"no, \" [a-z]{1,9}"};
    const std::string said = submit(request, sampling).get().answer.content;
    EXPECT_TRUE(said == "yes" || said.starts_with("no, ")) << said;
  }
}

TEST_F(ConstrainedAnswerTest, a_required_or_named_tool_is_called_whatever_was_asked) {
  ChatRequest request = ask("Tell me a short story.");
  request.tools = {kTimer};
  request.parallel_tool_calls = false;
  request.thinking = Thinking::kOff;
  int called = 0;
  for (const ToolChoice choice : {ToolChoice::kRequired, ToolChoice::kNamed}) {
    request.tool_choice = choice;
    request.named_tool = "set_timer";
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const Outcome outcome = submit(request, {.temperature = 1, .seed = seed}, 2000).get();
      // What is said before a call may take all the tokens that there are.
      if (outcome.result.end == AnswerEnd::kLength) continue;
      ++called;
      ASSERT_EQ(outcome.result.end, AnswerEnd::kToolCalls);
      ASSERT_EQ(outcome.answer.tool_calls.size(), 1u);
      EXPECT_EQ(outcome.answer.tool_calls[0].name, "set_timer");
      const auto arguments = nlohmann::json::parse(outcome.answer.tool_calls[0].arguments);
      EXPECT_GE(arguments.at("minutes"), 1);
      EXPECT_LE(arguments.at("minutes"), 60);
      EXPECT_TRUE(arguments.at("unit") == "s" || arguments.at("unit") == "min");
    }
  }
  EXPECT_GE(called, 4);
}

TEST_F(ConstrainedAnswerTest, a_length_limit_leaves_the_beginning_of_a_valid_text) {
  ChatRequest request = ask("Tell me a short story.");
  request.thinking = Thinking::kOff;
  request.response_format = {FormatKind::kRegex, "x{100}"};
  const Outcome outcome = submit(request, {.temperature = 0}, 3).get();
  EXPECT_EQ(outcome.result.end, AnswerEnd::kLength);
  EXPECT_EQ(outcome.answer.content.find_first_not_of('x'), std::string::npos);
  EXPECT_FALSE(outcome.answer.content.empty());
}

TEST_F(ConstrainedAnswerTest, a_request_without_demands_has_no_constraint) {
  const ChatRequest request = ask("Hello");
  const auto grammar = compiled_grammar(request, *model_->chat_format->render(request));
  ASSERT_TRUE(grammar);
  EXPECT_EQ(*grammar, nullptr);
  EXPECT_EQ(model_->constraint(*grammar), nullptr);
  EXPECT_EQ(*compiled_text_grammar({}), nullptr);
  EXPECT_EQ(compiled_text_grammar({FormatKind::kRegex, "(", "regex"}).error().field, "regex");
  const auto bound = compiled_text_grammar({FormatKind::kRegex, "a"});
  ASSERT_TRUE(bound);
  EXPECT_NE(model_->constraint(*bound), nullptr);
}

}  // namespace
}  // namespace tandem
