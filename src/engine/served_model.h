// A checkpoint folder ready to answer: engine, tokenizer, chat format and sampling defaults.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/answer_sink.h"
#include "engine/engine.h"
#include "model/config.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace tandem {

struct ServedModelOptions {
  std::filesystem::path folder;
  Precision precision = Precision::kDefault;
  const KernelSet* kernels = nullptr;  // nullptr: cpu_kernels()
  LoadOptions loading = {};
  EngineOptions engine = {};
};

// Immutable after loading, thread-safe. Move-only through its pointer.
struct ServedModel {
  std::string name;  // of the folder
  GenerationDefaults defaults;
  std::unique_ptr<Tokenizer> tokenizer;  // nullptr if the folder has none: token ids only
  ChatFamily chat_family = ChatFamily::kK3;
  std::unique_ptr<ChatFormat> chat_format;  // nullptr if there is no tokenizer
  std::vector<TokenId> stop_ids;  // of the configuration, generation defaults and tokenizer
  std::unique_ptr<Engine> engine;

  // The sampling that a request starts from: the checkpoint's defaults, else plain sampling.
  SamplingParams default_sampling() const;

  // Parser and stop strings for the answer to `prompt`.
  AnswerStream answer_stream(const Prompt& prompt, const ChatRequest& request,
                             const std::vector<std::string>& stop_strings) const;
};

// `clock` outlives the model.
Result<std::unique_ptr<ServedModel>> load_served_model(const ServedModelOptions& options,
                                                       const Clock& clock);

}  // namespace tandem
