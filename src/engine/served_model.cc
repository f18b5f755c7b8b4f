#include "engine/served_model.h"

#include <algorithm>
#include <utility>

#include "text/grammar/answer_grammar.h"

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
  if (request.tool_choice != ToolChoice::kNone) {
    for (DeclaredTool& tool : declared_tools(request)) {
      options.tool_names.push_back(std::move(tool.name));
    }
  }
  return {make_output_parser(chat_family, *tokenizer, std::move(options)), stop_strings,
          std::move(ending)};
}

Result<GrammarSource> ServedModel::chat_grammar(const ChatRequest& request,
                                                const Prompt& prompt) const {
  auto shape = TRY(answer_shape(request, prompt.start));
  if (!shape) return GrammarSource{};
  std::string key = "chat " + shape->key();
  return GrammarSource{std::move(key), [this, shape = *std::move(shape)] {
                         return compile_answer_grammar(shape, chat_family, *tokenizer, vocabulary);
                       }};
}

GrammarSource ServedModel::text_grammar(const ResponseFormat& format) const {
  if (format.kind == ResponseFormat::Kind::kText) return {};
  return {fmt::format("text {} {}", static_cast<int>(format.kind), format.source),
          [this, format] { return compile_text_grammar(format, vocabulary); }};
}

Result<Grammar::Pointer> ServedModel::compiled(const GrammarSource& source) const {
  if (source.key.empty()) return nullptr;
  return grammars->get(source.key, source.compile);
}

bool ServedModel::is_compiled(const GrammarSource& source) const {
  return source.key.empty() || grammars->contains(source.key);
}

std::unique_ptr<TokenConstraint> ServedModel::constraint(Grammar::Pointer grammar) const {
  if (grammar == nullptr) return nullptr;
  return make_grammar_constraint(std::move(grammar), engine->model().spec().vocab_size,
                                 *mask_workers);
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
