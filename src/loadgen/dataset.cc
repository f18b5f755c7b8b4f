#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "loadgen/workload.h"

namespace tandem::loadgen {
namespace {

using Json = nlohmann::json;

class Dataset final : public Workload {
 public:
  explicit Dataset(std::vector<Turn> turns) : turns_(std::move(turns)) {}

  std::vector<Turn> conversation(std::int64_t index) const override {
    return {turns_[static_cast<std::size_t>(index) % turns_.size()]};
  }

 private:
  const std::vector<Turn> turns_;
};

Result<std::int64_t> max_tokens_of(const Json& entry, std::int64_t otherwise) {
  const auto found = entry.find("max_tokens");
  if (found == entry.end()) return otherwise;
  if (!found->is_number_integer() || found->get<std::int64_t>() < 1) {
    return invalid("max_tokens: expected a positive integer");
  }
  return found->get<std::int64_t>();
}

// A line of a JSONL file.
Result<Turn> line_turn(std::string_view line, std::int64_t answer_tokens) {
  const Json entry = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!entry.is_object()) return invalid("not a JSON object");
  const std::int64_t max_tokens = TRY(max_tokens_of(entry, answer_tokens));
  if (const auto prompt = entry.find("prompt"); prompt != entry.end()) {
    if (!prompt->is_string()) return invalid("prompt: expected a string");
    return user_turn(prompt->get<std::string>(), max_tokens);
  }
  const auto messages = entry.find("messages");
  if (messages == entry.end()) return invalid("expected \"messages\" or \"prompt\"");
  if (!messages->is_array() || messages->empty()) {
    return invalid("messages: expected a list, not empty");
  }
  Turn turn{.messages = {}, .text = {}, .max_tokens = max_tokens};
  for (const Json& message : *messages) {
    if (!message.is_object()) return invalid("messages: expected objects");
    turn.messages += (turn.messages.empty() ? "" : ",") + message.dump();
    const auto content = message.find("content");
    if (content == message.end() || !content->is_string()) continue;
    turn.text += (turn.text.empty() ? "" : "\n") + content->get<std::string>();
  }
  return turn;
}

// The first question of an entry of ShareGPT; empty if it has none.
std::string first_question(const Json& entry) {
  if (!entry.is_object()) return {};
  const auto turns = entry.find("conversations");
  if (turns == entry.end() || !turns->is_array()) return {};
  for (const Json& turn : *turns) {
    if (!turn.is_object()) continue;
    const auto from = turn.find("from");
    const auto value = turn.find("value");
    if (from != turn.end() && (*from == "human" || *from == "user") && value != turn.end() &&
        value->is_string()) {
      return value->get<std::string>();
    }
  }
  return {};
}

Result<std::vector<Turn>> parse_array(std::string_view text, std::int64_t answer_tokens) {
  const Json entries = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!entries.is_array()) return invalid("begins as a JSON array, but is none");
  std::vector<Turn> turns;
  for (const Json& entry : entries) {
    const std::string question = first_question(entry);
    if (!question.empty()) turns.push_back(user_turn(question, answer_tokens));
  }
  return turns;
}

Result<std::vector<Turn>> parse_lines(std::string_view text, std::int64_t answer_tokens) {
  std::vector<Turn> turns;
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto turn = line_turn(line, answer_tokens);
    if (!turn) return invalid("line {}: {}", number, turn.error().message);
    turns.push_back(*std::move(turn));
  }
  return turns;
}

}  // namespace

Result<std::unique_ptr<Workload>> parse_dataset(std::string_view text, std::int64_t answer_tokens) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  const bool array = begin != std::string_view::npos && text[begin] == '[';
  std::vector<Turn> turns =
      TRY(array ? parse_array(text, answer_tokens) : parse_lines(text, answer_tokens));
  if (turns.empty()) return invalid("there is nothing to ask in it");
  return std::make_unique<Dataset>(std::move(turns));
}

Result<std::unique_ptr<Workload>> read_dataset(const std::filesystem::path& file,
                                               std::int64_t answer_tokens) {
  std::error_code error;
  std::ifstream in(file, std::ios::binary);
  if (!in || std::filesystem::is_directory(file, error)) {
    return fail(StatusCode::kNotFound, "{} cannot be read", file.string());
  }
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto workload = parse_dataset(text, answer_tokens);
  if (!workload) return invalid("{}: {}", file.string(), workload.error().message);
  return workload;
}

}  // namespace tandem::loadgen
