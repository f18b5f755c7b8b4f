// Multi-head latent attention in absorbed form.
//
// Every sum of a query row is ordered by positions alone. Keys pass in blocks of kKeyBlock
// positions, counted from position 0, through an online softmax; a row's last block ends with its
// own position. Rows that see the same keys of a block share its products, which changes no order
// (products.h).
#include <hwy/cache_control.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products.h"
#include "kernels/cpu/rows.h"

namespace tandem::cpu {
namespace {

constexpr std::int64_t kKeyBlock = 64;
constexpr std::int64_t kMaxHeadsTogether = 32;
constexpr std::int64_t kMaxRowsTogether = 32;
constexpr std::int64_t kTokenBlock = 64;
constexpr std::int64_t kCacheLine = 64;
// With more rows than this arithmetic takes longer than memory.
constexpr std::int64_t kMaxRowsToPrefetch = 16;

// Query rows of one sequence that pass over its keys together: heads [head, head + heads) of every
// token in [first, first + tokens), token-major.
struct QueryRows {
  std::int64_t first;
  std::int64_t tokens;
  std::int64_t head;
  std::int64_t heads;

  std::int64_t count() const { return tokens * heads; }
};

struct Workspace {
  Activations query;    // [T, heads*latent] absorbed queries
  Activations context;  // [T, heads*latent]
};

Workspace workspace_of(const MlaAttentionArgs& args) {
  const std::int64_t width = args.dims.heads * args.dims.latent;
  float* query = args.workspace;
  return {{query, args.q.rows, width, width},
          {query + args.q.rows * width, args.q.rows, width, width}};
}

// body(head, first token, tokens) over all heads and blocks of tokens.
template <class Body>
void for_head_blocks(const MlaAttentionArgs& args, ThreadTeam& team, std::int64_t products,
                     const Body& body) {
  const std::int64_t blocks = (args.q.rows + kTokenBlock - 1) / kTokenBlock;
  const auto tokens = static_cast<double>(std::min(args.q.rows, kTokenBlock));
  const double flops = 2 * tokens * static_cast<double>(products * args.dims.latent);
  const double bytes = 2 * static_cast<double>(products * args.dims.latent);
  const double ns = std::max(flops * kNsPerFlop, bytes * kNsPerByte);
  parallel(team, args.dims.heads * blocks, grain_for(ns),
           [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t task = begin; task < end; ++task) {
               const std::int64_t first = task % blocks * kTokenBlock;
               body(task / blocks, first, std::min(kTokenBlock, args.q.rows - first));
             }
           });
}

// query_h = W_UK[h]^T q_nope,h
void absorb_queries(const MlaAttentionArgs& args, ThreadTeam& team, const Workspace& workspace) {
  const MlaDims& dims = args.dims;
  const auto body = [&](std::int64_t head, std::int64_t first, std::int64_t tokens) {
    const ConstActivations q = args.q.slice(head * (dims.nope + dims.pe), dims.nope);
    const Activations query =
        rows_of(workspace.query.slice(head * dims.latent, dims.latent), first, tokens);
    for (std::int64_t t = 0; t < tokens; ++t) std::fill_n(query.row(t), dims.latent, 0.0f);
    add_weighted_rows(weight_rows(args.kv_b, head * (dims.nope + dims.value), dims.nope),
                      rows_of(q, first, tokens), query);
  };
  for_head_blocks(args, team, dims.nope, body);
}

// o_h = W_UV[h] context_h
void project_contexts(const MlaAttentionArgs& args, ThreadTeam& team, const Workspace& workspace) {
  const MlaDims& dims = args.dims;
  const auto body = [&](std::int64_t head, std::int64_t first, std::int64_t tokens) {
    const std::int64_t row = head * (dims.nope + dims.value) + dims.nope;
    multiply_rows(weight_rows(args.kv_b, row, dims.value),
                  rows_of(workspace.context.slice(head * dims.latent, dims.latent), first, tokens),
                  0, dims.value,
                  rows_of(args.o.slice(head * dims.value, dims.value), first, tokens));
  };
  for_head_blocks(args, team, dims.value, body);
}

// One task: `rows` over all keys that they see.
class AttentionTask {
 public:
  AttentionTask(const MlaAttentionArgs& args, const Workspace& workspace,
                const MlaSequence& sequence, const QueryRows& rows, Scratch& scratch)
      : args_(args), sequence_(sequence), rows_(rows) {
    const std::int64_t latent = args.dims.latent;
    const std::int64_t width = latent + args.dims.pe;
    const std::int64_t count = rows.count();
    float* memory = scratch.floats(count * (width + latent + kKeyBlock + 2));
    query_ = {memory, count, width, width};
    softmax_.context = {memory += count * width, count, latent, latent};
    softmax_.scores = {memory += count * latent, count, kKeyBlock, kKeyBlock};
    softmax_.largest = memory += count * kKeyBlock;
    softmax_.sum = memory + count;
    std::fill_n(softmax_.context.data, count * latent, 0.0f);
    std::fill_n(softmax_.largest, count, -std::numeric_limits<float>::infinity());
    std::fill_n(softmax_.sum, count, 0.0f);
    gather_queries(workspace);
  }

  void run(const Workspace& workspace) {
    const std::int64_t first_position = sequence_.start + rows_.first;
    // Blocks that every row sees whole; what is left differs from token to token.
    const std::int64_t common = (first_position + 1) / kKeyBlock * kKeyBlock;
    const std::int64_t end = first_position + rows_.tokens;
    prefetch(0, std::min(kKeyBlock, end));
    for (std::int64_t key = 0; key < common; key += kKeyBlock) {
      const std::int64_t next = key + kKeyBlock;
      prefetch(next, std::min(kKeyBlock, end - next));
      attend(0, rows_.count(), key, kKeyBlock);
    }
    for (std::int64_t t = 0; t < rows_.tokens; ++t) {
      const std::int64_t visible = first_position + t + 1;
      for (std::int64_t key = common; key < visible; key += kKeyBlock) {
        attend(t * rows_.heads, rows_.heads, key, std::min(kKeyBlock, visible - key));
      }
    }
    finish_context(softmax_);
    scatter_contexts(workspace);
  }

 private:
  // The absorbed query beside the shared part, scaled, so that a score is one product with a latent
  // row.
  void gather_queries(const Workspace& workspace) {
    const MlaDims& dims = args_.dims;
    const float scale = 1.0f / std::sqrt(static_cast<float>(dims.nope + dims.pe));
    for (std::int64_t r = 0; r < rows_.count(); ++r) {
      const std::int64_t row = sequence_.first_row + rows_.first + r / rows_.heads;
      const std::int64_t head = rows_.head + r % rows_.heads;
      const float* absorbed = workspace.query.row(row) + head * dims.latent;
      const float* shared = args_.q.row(row) + head * (dims.nope + dims.pe) + dims.nope;
      float* query = query_.row(r);
      for (std::int64_t i = 0; i < dims.latent; ++i) query[i] = absorbed[i] * scale;
      for (std::int64_t i = 0; i < dims.pe; ++i) query[dims.latent + i] = shared[i] * scale;
    }
  }

  void scatter_contexts(const Workspace& workspace) const {
    for (std::int64_t r = 0; r < rows_.count(); ++r) {
      const std::int64_t row = sequence_.first_row + rows_.first + r / rows_.heads;
      const std::int64_t head = rows_.head + r % rows_.heads;
      std::copy_n(softmax_.context.row(r), args_.dims.latent,
                  workspace.context.row(row) + head * args_.dims.latent);
    }
  }

  // Query rows [row, row + rows) see keys [first, first + keys) of one block.
  void attend(std::int64_t row, std::int64_t rows, std::int64_t first, std::int64_t keys) {
    const RunningSoftmax part = {rows_of(softmax_.scores.slice(0, keys), row, rows),
                                 softmax_.largest + row, softmax_.sum + row,
                                 rows_of(softmax_.context, row, rows)};
    for_pages(first, keys, [&](const WeightMatrix& latent, std::int64_t key) {
      multiply_rows(latent, rows_of(query_, row, rows), 0, latent.outputs,
                    part.scores.slice(key, latent.outputs));
    });
    absorb_scores(part);
    for_pages(first, keys, [&](const WeightMatrix& latent, std::int64_t key) {
      add_weighted_rows(latent, part.scores.slice(key, latent.outputs), part.context);
    });
  }

  // Latent rows lie in pages all over memory, where the processor does not foresee the next one.
  void prefetch(std::int64_t first, std::int64_t keys) const {
    if (rows_.count() > kMaxRowsToPrefetch) return;
    for_pages(first, keys, [](const WeightMatrix& latent, std::int64_t) {
      const auto* bytes = static_cast<const std::byte*>(latent.data);
      const std::int64_t size = weight_bytes(latent);
      for (std::int64_t i = 0; i < size; i += kCacheLine) hwy::Prefetch(bytes + i);
    });
  }

  // body(latent rows as a matrix, offset from `first`) for every stretch of keys within one page.
  template <class Body>
  void for_pages(std::int64_t first, std::int64_t keys, const Body& body) const {
    const std::int64_t width = args_.dims.latent + args_.dims.pe;
    const auto row_bytes = width * static_cast<std::int64_t>(element_bytes(args_.row_dtype));
    for (std::int64_t key = 0; key < keys;) {
      const std::int64_t page_left =
          sequence_.latent.page_tokens - (first + key) % sequence_.latent.page_tokens;
      const std::int64_t stretch = std::min(page_left, keys - key);
      body(WeightMatrix{.dtype = args_.row_dtype,
                        .data = sequence_.latent.row(first + key, row_bytes),
                        .outputs = stretch,
                        .inputs = width},
           key);
      key += stretch;
    }
  }

  const MlaAttentionArgs& args_;
  const MlaSequence& sequence_;
  const QueryRows rows_;
  Activations query_;  // [rows, latent + pe]
  RunningSoftmax softmax_;
};

// How the query rows of a step are cut into tasks; steers threads, never results.
class Cut {
 public:
  Cut(const MlaAttentionArgs& args, int threads) : args_(args) {
    // With fewer rows than threads, the heads of a token are shared out.
    const std::int64_t rows = std::max<std::int64_t>(args.q.rows, 1);
    const std::int64_t parts = args.q.rows < threads ? (threads + rows - 1) / rows : 1;
    heads_ = std::min((args.dims.heads + parts - 1) / parts, kMaxHeadsTogether);
    tokens_ = std::max<std::int64_t>(kMaxRowsTogether / heads_, 1);
    head_groups_ = (args.dims.heads + heads_ - 1) / heads_;
  }

  std::int64_t tasks(const MlaSequence& sequence) const {
    return (sequence.rows + tokens_ - 1) / tokens_ * head_groups_;
  }

  double ns(const MlaSequence& sequence) const {
    return kNsPerFlop * static_cast<double>(4 * sequence.rows * args_.dims.heads *
                                            (sequence.start + sequence.rows) * args_.dims.latent);
  }

  // The last tokens see most: they come first, so that threads end together.
  QueryRows rows(const MlaSequence& sequence, std::int64_t task) const {
    const std::int64_t token_groups = (sequence.rows + tokens_ - 1) / tokens_;
    const std::int64_t token = (token_groups - 1 - task / head_groups_) * tokens_;
    const std::int64_t head = task % head_groups_ * heads_;
    return {token, std::min(tokens_, sequence.rows - token), head,
            std::min(heads_, args_.dims.heads - head)};
  }

 private:
  const MlaAttentionArgs& args_;
  std::int64_t heads_ = 0, tokens_ = 0;  // of a task
  std::int64_t head_groups_ = 0;
};

void attend_all(const MlaAttentionArgs& args, ThreadTeam& team, const Workspace& workspace) {
  const Cut cut(args, team.threads());
  std::int64_t tasks = 0;
  double ns = 0;
  for (std::int64_t s = 0; s < args.sequence_count; ++s) {
    tasks += cut.tasks(args.sequences[s]);
    ns += cut.ns(args.sequences[s]);
  }
  if (tasks == 0) return;
  const auto body = [&](std::int64_t begin, std::int64_t end) {
    static thread_local Scratch scratch;
    const MlaSequence* sequence = args.sequences;
    for (std::int64_t task = begin, first = 0; task < end; ++task) {
      while (task - first >= cut.tasks(*sequence)) first += cut.tasks(*sequence++);
      const QueryRows rows = cut.rows(*sequence, task - first);
      AttentionTask(args, workspace, *sequence, rows, scratch).run(workspace);
    }
  };
  parallel(team, tasks, grain_for(ns / static_cast<double>(tasks)), body);
}

}  // namespace

void mla_store(const MlaStoreArgs& args, ThreadTeam&) noexcept {
  const std::int64_t width = args.dims.latent + args.dims.pe;
  const auto row_bytes = width * static_cast<std::int64_t>(element_bytes(args.row_dtype));
  for (std::int64_t s = 0; s < args.sequence_count; ++s) {
    const MlaSequence& sequence = args.sequences[s];
    for (std::int64_t r = 0; r < sequence.rows; ++r) {
      store_latent_row(args.compressed.row(sequence.first_row + r), width, args.dims.latent,
                       args.norm_weight, args.eps, args.row_dtype,
                       sequence.latent.row(sequence.start + r, row_bytes));
    }
  }
}

void mla_attention(const MlaAttentionArgs& args, ThreadTeam& team) noexcept {
  const Workspace workspace = workspace_of(args);
  absorb_queries(args, team, workspace);
  attend_all(args, team, workspace);
  project_contexts(args, team, workspace);
}

}  // namespace tandem::cpu
