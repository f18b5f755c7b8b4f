#include "engine/served_model.h"

#include <algorithm>

#include "text/grammar/answer_grammar.h"
#include "text/json_text.h"

namespace tandem {
namespace {

std::vector<TokenId> all_stop_ids(const ModelSpec& spec, const ServedModel& served) {
  std::vector<TokenId> ids = served.defaults.eos_ids;
  ids.push_back(spec.eos_id);
  if (served.tokenizer) {
    const auto named = stop_ids(*served.tokenizer);
    ids.insert(ids.end(), named.begin(), named.end());
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

Result<void> load_text_side(const std::filesystem::path& folder, const ModelSpec& spec,
                            ServedModel& served) {
  if (!std::filesystem::exists(folder / "tiktoken.model")) return {};
  served.tokenizer = TRY(Tokenizer::load(folder, spec.vocab_size));
  served.chat_family = TRY(detect_chat_family(*served.tokenizer));
  served.chat_format = make_chat_format(served.chat_family, *served.tokenizer);
  return {};
}

const JsonValue* member(const JsonValue& object, std::string_view key) {
  const auto found = std::find(object.keys.begin(), object.keys.end(), key);
  return found == object.keys.end()
             ? nullptr
             : &object.items[static_cast<std::size_t>(found - object.keys.begin())];
}

// Names of the tools that the request and its system messages declare. Rendering has checked their
// form.
std::vector<std::string> declared_tools(const ChatRequest& request) {
  std::vector<std::string> names;
  const auto add = [&names](const std::vector<std::string>& tools) {
    for (const std::string& tool : tools) {
      const auto parsed = parse_json(tool);
      const JsonValue* function = parsed ? member(*parsed, "function") : nullptr;
      const JsonValue* name = function != nullptr ? member(*function, "name") : nullptr;
      if (name != nullptr) names.push_back(name->text);
    }
  };
  add(request.tools);
  for (const ChatMessage& message : request.messages) add(message.tools);
  return names;
}

std::string folder_name(const std::filesystem::path& folder) {
  // "models/demo/" has an empty last component.
  const auto absolute = std::filesystem::weakly_canonical(folder);
  return absolute.filename().string();
}

}  // namespace

SamplingParams ServedModel::default_sampling() const {
  SamplingParams params;
  params.temperature = defaults.temperature.value_or(params.temperature);
  params.top_p = defaults.top_p.value_or(params.top_p);
  params.top_k = defaults.top_k.value_or(params.top_k);
  params.repetition_penalty = defaults.repetition_penalty.value_or(params.repetition_penalty);
  return params;
}

AnswerStream ServedModel::answer_stream(const Prompt& prompt, const ChatRequest& request,
                                        const std::vector<std::string>& stop_strings,
                                        AnswerEnding ending) const {
  OutputParserOptions options{
      .start = prompt.start, .tool_calls_before = prompt.tool_calls_before, .tool_names = {}};
  if (request.tool_choice != ToolChoice::kNone) options.tool_names = declared_tools(request);
  return {make_output_parser(chat_family, *tokenizer, std::move(options)), stop_strings,
          std::move(ending)};
}

Result<std::unique_ptr<TokenConstraint>> ServedModel::chat_constraint(const ChatRequest& request,
                                                                      const Prompt& prompt) const {
  const auto shape = TRY(answer_shape(request, prompt.start));
  if (!shape) return nullptr;
  const Grammar::Pointer grammar = TRY(grammars->get("chat " + shape->key(), [&] {
    return compile_answer_grammar(*shape, chat_family, *tokenizer, vocabulary);
  }));
  return make_grammar_constraint(grammar, engine->model().spec().vocab_size, *masks);
}

Result<std::unique_ptr<TokenConstraint>> ServedModel::text_constraint(
    const ResponseFormat& format) const {
  if (format.kind == ResponseFormat::Kind::kText) return nullptr;
  const std::string key = fmt::format("text {} {}", static_cast<int>(format.kind), format.source);
  const Grammar::Pointer grammar =
      TRY(grammars->get(key, [&] { return compile_text_grammar(format, vocabulary); }));
  return make_grammar_constraint(grammar, engine->model().spec().vocab_size, *masks);
}

Result<std::unique_ptr<ServedModel>> load_served_model(const ServedModelOptions& options,
                                                       const Clock& clock) {
  const KernelSet& kernels = options.kernels != nullptr ? *options.kernels : cpu_kernels();
  auto model = TRY(Model::load(options.folder, options.precision, kernels, options.loading));
  auto served = std::make_unique<ServedModel>();
  served->name = folder_name(options.folder);
  served->defaults = TRY(read_generation_config(options.folder));
  TRY(load_text_side(options.folder, model->spec(), *served));
  served->stop_ids = all_stop_ids(model->spec(), *served);
  if (served->tokenizer) {
    served->vocabulary = GrammarVocabulary::create(*served->tokenizer, served->stop_ids);
  }
  served->engine = TRY(Engine::create(std::move(model), options.engine, clock));
  return served;
}

}  // namespace tandem
