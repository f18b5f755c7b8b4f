// POST /tokenize and /detokenize, in the spellings of SGLang, vLLM and llama-server.
#pragma once

#include "serve/http.h"
#include "serve/serve_context.h"

namespace tandem {

// Handlers (http.h); `context` outlives them. They run on a worker.

// {prompt | text | content | messages…} -> {tokens, count, max_model_len}; text of a list has a
// list of tokens. With "with_pieces" or "return_token_strs" the tokens' texts as well.
HttpHandler tokenize_route(const ServeContext& context);
// {tokens} -> {text, prompt, content}, one text under all three names.
HttpHandler detokenize_route(const ServeContext& context);

}  // namespace tandem
