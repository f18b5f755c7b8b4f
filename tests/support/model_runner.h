// Runs a model over token ids with the memory of one or several sequences; shared by parity and
// property tests.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <vector>

#include "model/model.h"
#include "model/sequence_memory.h"

namespace tandem {

inline std::filesystem::path source_path(const std::string& relative) {
  return std::filesystem::path(TANDEM_SOURCE_DIR) / relative;
}

inline std::unique_ptr<Model> load_model(const std::string& folder, Precision precision,
                                         const KernelSet& kernels = cpu_kernels()) {
  auto model = Model::load(source_path(folder), precision, kernels);
  if (!model) {
    ADD_FAILURE() << model.error().message;
    std::abort();
  }
  return *std::move(model);
}

// [rows, columns] floats that own themselves.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> values;

  Matrix() = default;
  Matrix(std::int64_t r, std::int64_t c)
      : rows(r), columns(c), values(static_cast<std::size_t>(r * c), NAN) {}
  Activations view() { return {values.data(), rows, columns, columns}; }
  const float* row(std::int64_t i) const { return values.data() + i * columns; }
};

// One sequence that grows as it is fed.
class TestSequence {
 public:
  TestSequence(const Model& model, std::int64_t page_tokens)
      : memory_(model.memory().total, page_tokens), page_tokens_(page_tokens) {}

  // The next step's input; `tokens` must outlive it. Call advanced() after the step.
  SequenceInput input(std::span<const TokenId> tokens, std::int64_t logit_rows) {
    memory_.reserve_tokens(position_ + static_cast<std::int64_t>(tokens.size()));
    return {.tokens = tokens,
            .start = position_,
            .state = memory_.state(),
            .pages = memory_.pages(),
            .logit_rows = logit_rows};
  }
  void advanced(std::int64_t tokens) { position_ += tokens; }
  std::int64_t position() const { return position_; }
  std::int64_t page_tokens() const { return page_tokens_; }

  std::byte* state() { return memory_.state(); }
  const std::byte* row(const Model& model, std::size_t layer, std::int64_t token) const {
    const LayerMemory& memory = model.memory().layers[layer];
    const PagedRows rows{.pages = memory_.pages().data(),
                         .page_tokens = page_tokens_,
                         .layer_offset_bytes = memory.row_prefix_bytes * page_tokens_};
    return rows.row(token, memory.row_bytes);
  }

 private:
  SequenceMemory memory_;
  std::int64_t page_tokens_;
  std::int64_t position_ = 0;
};

// Feeds `ids` in pieces of the given lengths (which add up to ids.size()) and returns all logits.
inline Matrix run_chunks(const Model& model, ThreadTeam& team, TestSequence& sequence,
                         std::span<const TokenId> ids, const std::vector<std::int64_t>& chunks,
                         ForwardObserver* observer = nullptr) {
  Scratch scratch;
  Matrix logits(static_cast<std::int64_t>(ids.size()), model.spec().vocab_size);
  std::int64_t done = 0;
  for (std::int64_t length : chunks) {
    const auto piece =
        ids.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(length));
    const SequenceInput input = sequence.input(piece, length);
    Activations out = logits.view();
    out.data += done * out.stride;
    out.rows = length;
    model.forward(
        {.sequences = {&input, 1}, .page_tokens = sequence.page_tokens(), .observer = observer},
        scratch, team, out);
    sequence.advanced(length);
    done += length;
  }
  return logits;
}

inline std::int64_t arg_max(const float* logits, std::int64_t count) {
  return std::max_element(logits, logits + count) - logits;
}

// Greedy continuation of `prompt`, until `stop` or `limit` tokens. `logits_out`, if set, receives
// each step's logits.
inline std::vector<TokenId> greedy(const Model& model, ThreadTeam& team,
                                   std::span<const TokenId> prompt, TokenId stop,
                                   std::int64_t limit) {
  TestSequence sequence(model, 16);
  Scratch scratch;
  std::vector<TokenId> answer;
  std::vector<TokenId> next(prompt.begin(), prompt.end());
  Matrix logits(1, model.spec().vocab_size);
  while (static_cast<std::int64_t>(answer.size()) < limit) {
    const SequenceInput input = sequence.input(next, 1);
    model.forward({.sequences = {&input, 1}, .page_tokens = 16}, scratch, team, logits.view());
    sequence.advanced(static_cast<std::int64_t>(next.size()));
    next = {static_cast<TokenId>(arg_max(logits.row(0), logits.columns))};
    answer.push_back(next[0]);
    if (next[0] == stop) break;
  }
  return answer;
}

}  // namespace tandem
