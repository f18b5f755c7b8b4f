// What every protocol asks of the engine: prompts, each answered by one or more choices.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "memory/namespace_key.h"
#include "sample/sampler.h"
#include "schedule/waiting_line.h"
#include "serve/answer_writer.h"
#include "serve/http.h"
#include "serve/refusal.h"
#include "serve/request_registry.h"
#include "serve/serve_context.h"
#include "text/answer_stream.h"
#include "text/grammar/grammar.h"

namespace tandem {

struct GenerationPrompt {
  std::vector<TokenId> ids;
  std::function<AnswerStream()> answer_stream;  // makes the one of a choice
  // What its choices have to follow. An error is reported when the prompt is submitted.
  Result<GrammarSource> grammar = GrammarSource{};
};

struct Generation {
  std::vector<GenerationPrompt> prompts = {};  // >= 1
  std::string prompts_field = "prompt";        // of the request
  int choices = 1;                             // of each prompt
  SamplingParams sampling = {};                // without a seed
  // nullopt: a random one. Choice i of a prompt is choice 0 of the seed i further.
  std::optional<std::uint64_t> seed = {};
  std::int64_t max_tokens = -1;  // of a choice; -1: what the context leaves
  std::vector<TokenId> stop_ids = {};
  std::string cache_salt = {};
  TenantId tenant = {};
  double tenant_weight = 1;
  int priority = 0;
  // Not admitted by then, the answer fails with kDeadlineExceeded; else it ends with what there is.
  std::optional<TimePoint> deadline = {};
  // Log-probs of each prompt from this position on come with its first token; -1: none.
  std::int64_t prompt_logprobs_from = -1;
  std::string request_id = {};  // the client's name for the request; empty: none
  std::string request_id_field = {};
  bool stream = false;
  Status (*grammar_error)(Status) = nullptr;  // respells errors of grammars; null: as they are

  int answers() const { return static_cast<int>(prompts.size()) * choices; }
};

// Submits every choice under the name that `lease` holds; `writer` then hears of them on the
// network thread. The engine takes all or none: if it refuses one, the exchange is answered with
// what `error_format` makes of it. If the client leaves, the choices are cancelled. For a worker
// thread.
void start_generation(const ServeContext& context, Generation generation,
                      RequestRegistry::Lease lease, const std::shared_ptr<HttpExchange>& exchange,
                      std::unique_ptr<AnswerWriter> writer, ErrorFormat error_format);

}  // namespace tandem
