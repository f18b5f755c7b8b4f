// What fits into memory, said before anything is loaded: `tandem plan` and the server ask here, and
// the arithmetic is the allocator's own (memory/arena_geometry.h), so that what is said to fit
// fits.
//
// All byte counts are of one rank. Pure functions and plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/system_memory.h"
#include "memory/arena_geometry.h"
#include "model/model_spec.h"
#include "tensor/state_layout.h"

namespace tandem {

struct CacheOptions {
  Precision precision = Precision::kDefault;
  std::int64_t tp_size = 1;     // ranks that share every layer's heads, and so each KDA state
  std::int64_t dcp_size = 1;    // ranks among them that share a request's rows by position
  std::int64_t page_rows = 16;  // rows of one page on one rank
};

// The part of the model that one of `tp_size` ranks holds: heads, widths of feed-forward blocks and
// vocabulary are split, MLA's latent rows and whatever is narrow are on every rank. (Experts may be
// split by number instead: as many bytes.) kInvalidArgument if heads do not divide.
Result<ModelSpec> spec_of_rank(const ModelSpec& spec, std::int64_t tp_size);

// The prices.
struct CacheCosts {
  std::int64_t state_bytes = 0;  // one request's, of all KDA layers; also of one cached checkpoint
  std::int64_t row_bytes = 0;    // one token's, of all MLA layers, on the rank that keeps it
  std::int64_t dcp_size = 1;     // a rank keeps the rows of one token in so many
  std::int64_t page_rows = 0;
  std::int64_t context_limit_tokens = 0;  // the model's

  double token_bytes() const {  // of one token of context
    return static_cast<double>(row_bytes) / static_cast<double>(dcp_size);
  }
  std::int64_t page_tokens() const { return page_rows * dcp_size; }
  std::int64_t page_bytes() const { return entry_bytes(page_rows * row_bytes); }
  std::int64_t pages_of(std::int64_t tokens) const {
    return (tokens + page_tokens() - 1) / page_tokens();
  }
  // A state costs as much as this many tokens of context, rounded up; 0 in a model without rows.
  std::int64_t state_cost_tokens() const;
  ArenaGeometry geometry(std::int64_t budget_bytes) const;
};

// kInvalidArgument for sizes below 1, for a tp_size that does not divide the heads, and for a
// dcp_size that does not divide tp_size.
Result<CacheCosts> cache_costs(const ModelSpec& spec, const CacheOptions& options);

// As many requests as fit, all of one length, and what of the memory they take.
struct ContextRow {
  std::int64_t context_tokens = 0;
  std::int64_t requests = 0;
  double state_share = 0;  // of what states and rows may use; the rest is row_share and free
  double row_share = 0;

  bool operator==(const ContextRow&) const = default;
};

// Prices and a budget. Every question has an answer, for a budget that holds nothing too.
struct MemoryPlan {
  CacheCosts costs;
  std::int64_t budget_bytes = 0;  // of the cache: states, rows and padding, without weights

  ArenaGeometry geometry() const { return costs.geometry(budget_bytes); }
  // What states and rows may use.
  std::int64_t usable_bytes() const;
  // Requests of `context_tokens` >= 1 each, prompt and answer, that fit together.
  std::int64_t requests_that_fit(std::int64_t context_tokens) const;
  // The longest context that `requests` >= 1 can all have, at most the model's limit; 0 if there is
  // no room for a page each.
  std::int64_t context_that_fits(std::int64_t requests) const;
  // 1K, 8K, 64K, 512K, ... tokens below the model's limit, then the limit.
  std::vector<ContextRow> context_table() const;
  // One line for a log.
  std::string summary() const;
};

// kInvalidArgument unless `requests` requests of `context_tokens` fit at once; the message holds
// the sum and what would fit instead. The server asks for one request of its context length.
Result<void> check_fits(const MemoryPlan& plan, std::int64_t context_tokens,
                        std::int64_t requests = 1);

// How much of a machine the cache takes if nobody says.
struct BudgetRule {
  double memory_fraction = 0.8;   // of what is available, for weights and cache together
  std::int64_t max_running = 16;  // requests at once
};

// The fraction less the weights, but not more than `max_running` requests at the model's limit can
// use and the same again to keep for later ones, so that a small model takes little. Never
// negative; may be too little for a request, which check_fits tells.
std::int64_t default_memory_budget(const CacheCosts& costs, const SystemMemory& memory,
                                   std::int64_t weight_bytes, const BudgetRule& rule);

}  // namespace tandem
