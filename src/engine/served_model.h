// A checkpoint folder ready to answer: engine, tokenizer, chat format and sampling defaults.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/answer_sink.h"
#include "engine/engine.h"
#include "engine/grammar_constraint.h"
#include "model/config.h"
#include "text/chat.h"
#include "text/grammar/grammar_cache.h"
#include "text/tokenizer.h"

namespace tandem {

struct ServedModelOptions {
  std::filesystem::path folder;
  Precision precision = Precision::kDefault;
  const KernelSet* kernels = nullptr;  // nullptr: cpu_kernels()
  LoadOptions loading = {};
  EngineOptions engine = {};
};

// What an answer has to follow, not compiled yet.
struct GrammarSource {
  std::string key = {};  // in the cache of grammars; empty: the answer is free
  std::function<Result<Grammar::Pointer>()> compile = nullptr;  // while the model lives
};

// Immutable after loading, thread-safe. Move-only through its pointer.
struct ServedModel {
  std::string name;  // of the folder
  GenerationDefaults defaults;
  std::unique_ptr<Tokenizer> tokenizer;  // nullptr if the folder has none: token ids only
  ChatFamily chat_family = ChatFamily::kK3;
  std::unique_ptr<ChatFormat> chat_format;  // nullptr if there is no tokenizer
  std::vector<TokenId> stop_ids;   // of the configuration, generation defaults and tokenizer
  Grammar::Vocabulary vocabulary;  // nullptr if there is no tokenizer
  std::unique_ptr<GrammarCache> grammars = std::make_unique<GrammarCache>();
  std::unique_ptr<WorkerPool> mask_workers = std::make_unique<WorkerPool>(1);
  std::unique_ptr<Engine> engine;  // last: its requests use what stands above

  // The sampling that a request starts from: the checkpoint's defaults, else plain sampling.
  SamplingParams default_sampling() const;

  // Parser and stop strings for the answer to `prompt`.
  AnswerStream answer_stream(const Prompt& prompt, const ChatRequest& request,
                             const std::vector<std::string>& stop_strings,
                             AnswerEnding ending = {}) const;

  // What the answer has to follow: response format, tool choice, schemas of strict tools. Errors,
  // here and when it is compiled, are the client's and name the field.
  Result<GrammarSource> chat_grammar(const ChatRequest& request, const Prompt& prompt) const;
  // The same for an answer that is text and nothing else.
  GrammarSource text_grammar(const ResponseFormat& format) const;
  // nullptr if the answer is free. Compiles, on this thread, what was not asked for lately.
  Result<Grammar::Pointer> compiled(const GrammarSource& source) const;
  // compiled() returns at once.
  bool is_compiled(const GrammarSource& source) const;
  // One choice's way through a grammar; nullptr for nullptr.
  std::unique_ptr<TokenConstraint> constraint(Grammar::Pointer grammar) const;
};

// `clock` outlives the model.
Result<std::unique_ptr<ServedModel>> load_served_model(const ServedModelOptions& options,
                                                       const Clock& clock);

}  // namespace tandem
