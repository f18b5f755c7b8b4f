// `exact` means exact: a sequence's logits, state and latent rows are the same bits however its
// tokens are cut into steps, whatever shares the steps, whatever the page size, and on any number
// of threads.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>

#include "support/model_runner.h"

namespace tandem {
namespace {

using Random = std::mt19937_64;

std::vector<TokenId> random_ids(Random& random, const ModelSpec& spec, std::int64_t count) {
  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<TokenId>(random() % static_cast<std::uint64_t>(spec.vocab_size)));
  }
  return ids;
}

// Lengths >= 1 that add up to `total`.
std::vector<std::int64_t> random_cut(Random& random, std::int64_t total) {
  std::vector<std::int64_t> chunks;
  while (total > 0) {
    const auto longest =
        static_cast<std::uint64_t>(random() % 3 == 0 ? total : std::min<std::int64_t>(total, 9));
    chunks.push_back(1 + static_cast<std::int64_t>(random() % longest));
    total -= chunks.back();
  }
  return chunks;
}

struct Outcome {
  std::vector<float> logits;
  std::vector<std::byte> state;
  std::vector<std::byte> rows;

  bool operator==(const Outcome& other) const {
    // memcmp, so that a NaN or a signed zero counts.
    return logits.size() == other.logits.size() &&
           std::memcmp(logits.data(), other.logits.data(), logits.size() * sizeof(float)) == 0 &&
           state == other.state && rows == other.rows;
  }
};

void keep_memory(const Model& model, TestSequence& sequence, Outcome& outcome) {
  outcome.state.assign(sequence.state(), sequence.state() + model.memory().total.state_bytes);
  for (std::size_t l = 0; l < model.spec().layers.size(); ++l) {
    const std::int64_t bytes = model.memory().layers[l].row_bytes;
    for (std::int64_t t = 0; bytes > 0 && t < sequence.position(); ++t) {
      const std::byte* row = sequence.row(model, l, t);
      outcome.rows.insert(outcome.rows.end(), row, row + bytes);
    }
  }
}

// All tokens in one step, alone, on one thread.
Outcome plain_run(const Model& model, std::span<const TokenId> ids) {
  ThreadTeam team(1);
  TestSequence sequence(model, 64);
  Outcome outcome;
  outcome.logits =
      run_chunks(model, team, sequence, ids, {static_cast<std::int64_t>(ids.size())}).values;
  keep_memory(model, sequence, outcome);
  return outcome;
}

struct Companion {
  std::vector<TokenId> ids;
  std::vector<std::int64_t> chunks;
  std::unique_ptr<TestSequence> sequence;
  std::size_t next_chunk = 0;
};

// The sequence cut at random, with up to three random companions at random places in the batch.
Outcome crowded_run(const Model& model, std::span<const TokenId> ids, Random& random) {
  const std::int64_t page_tokens = std::array<std::int64_t, 3>{1, 16, 64}[random() % 3];
  ThreadTeam team(random() % 2 == 0 ? 1 : 2);
  Scratch scratch;
  TestSequence sequence(model, page_tokens);
  std::vector<Companion> companions(random() % 4);
  for (Companion& companion : companions) {
    companion.ids = random_ids(random, model.spec(), 1 + static_cast<std::int64_t>(random() % 60));
    companion.chunks = random_cut(random, static_cast<std::int64_t>(companion.ids.size()));
    companion.sequence = std::make_unique<TestSequence>(model, page_tokens);
  }

  Outcome outcome;
  std::int64_t done = 0;
  for (std::int64_t length : random_cut(random, static_cast<std::int64_t>(ids.size()))) {
    std::vector<SequenceInput> inputs;
    std::vector<std::pair<TestSequence*, std::int64_t>> advance;
    std::int64_t rows_before = 0;
    const std::size_t place = random() % (companions.size() + 1);
    for (std::size_t i = 0; i <= companions.size(); ++i) {
      if (i == place) {
        rows_before = ForwardBatch{.sequences = inputs}.logit_rows();
        inputs.push_back(sequence.input(
            ids.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(length)), length));
        advance.push_back({&sequence, length});
      }
      if (i == companions.size() || companions[i].next_chunk == companions[i].chunks.size())
        continue;
      Companion& companion = companions[i];
      const std::int64_t rows = companion.chunks[companion.next_chunk++];
      const auto piece = std::span(companion.ids)
                             .subspan(static_cast<std::size_t>(companion.sequence->position()),
                                      static_cast<std::size_t>(rows));
      inputs.push_back(companion.sequence->input(piece, static_cast<std::int64_t>(random() % 2)));
      advance.push_back({companion.sequence.get(), rows});
    }
    const ForwardBatch batch{.sequences = inputs, .page_tokens = page_tokens};
    Matrix logits(batch.logit_rows(), model.spec().vocab_size);
    model.forward(batch, scratch, team, logits.view());
    for (auto& [which, rows] : advance) which->advanced(rows);
    outcome.logits.insert(outcome.logits.end(), logits.row(rows_before),
                          logits.row(rows_before) + length * logits.columns);
    done += length;
  }
  keep_memory(model, sequence, outcome);
  return outcome;
}

class ExactnessTest : public testing::TestWithParam<const char*> {};

TEST_P(ExactnessTest, neither_cuts_nor_company_nor_threads_change_a_bit) {
  const auto model = load_model(GetParam(), Precision::kExact);
  rc::check([&] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    Random random(seed);
    const auto ids =
        random_ids(random, model->spec(), 1 + static_cast<std::int64_t>(random() % 60));
    RC_ASSERT(crowded_run(*model, ids, random) == plain_run(*model, ids));
  });
}

INSTANTIATE_TEST_SUITE_P(Models, ExactnessTest,
                         testing::Values("models/demo", "tests/data/golden/k3_tiny",
                                         "tests/data/golden/kimi_linear_tiny"),
                         [](const auto& instance) {
                           return std::filesystem::path(instance.param).filename().string();
                         });

// The comparison above must be able to fail: the default precision is allowed to depend on the cut.
TEST(ExactnessMutantTest, the_default_precision_does_depend_on_the_cut) {
  const auto model = load_model("models/demo", Precision::kDefault);
  Random random(1);
  const auto ids = random_ids(random, model->spec(), 40);
  ThreadTeam team(1);
  TestSequence whole(*model, 64), cut(*model, 64);
  const Matrix a = run_chunks(*model, team, whole, ids, {40});
  const Matrix b = run_chunks(*model, team, cut, ids, {13, 27});
  EXPECT_NE(std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace tandem
