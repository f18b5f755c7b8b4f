// "usage" and "timings" of OpenAI's bodies. For .cc files.
#pragma once

#include "serve/answer_usage.h"
#include "serve/json_dump.h"

namespace tandem {

// Counts of tokens alone, as they are known while an answer runs.
OrderedJson token_usage_json(const AnswerUsage& usage);

// Adds "usage", with how prompts met the cache, and "timings".
void add_usage(OrderedJson& body, const AnswerUsage& usage);

}  // namespace tandem
