// A grammar as the sampler asks for it: masks, made off the step loop where they take long.
#pragma once

#include <cstdint>
#include <memory>

#include "base/worker_pool.h"
#include "sample/token_constraint.h"
#include "text/grammar/grammar.h"

namespace tandem {

// The state of one request in `grammar`. A mask whose parts are all known is put together when it
// is asked for, in microseconds; another one is made by `workers` while the model computes the
// logits that it is for. The first mask is made here, on the caller's thread.
// `vocab_size` is the model's, at least the grammar's; ids beyond the grammar's are never allowed.
// `workers` outlive the constraint.
std::unique_ptr<TokenConstraint> make_grammar_constraint(Grammar::Pointer grammar,
                                                         std::int64_t vocab_size,
                                                         WorkerPool& workers);

}  // namespace tandem
