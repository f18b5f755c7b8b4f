// The forward pass against values of the fp64 reference, in both precisions. Bounds:
//   exact:   every logit, stream and cache within 2e-3 of that tensor's standard deviation. The
//   reference
//            itself, run in fp32, is within 8e-4 of its fp64 self; a wrong eps alone moves logits
//            by more.
//   default: mean error of the logits within 2e-2 of their standard deviation; argmax and greedy
//   text equal
//            wherever the top two are at least a quarter of it apart. Maxima are not bounded:
//            rounding sends a token to another expert now and then, and its logits jump.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/golden.h"

namespace tandem {
namespace {

constexpr double kExactMaxRatio = 2e-3;
constexpr double kDefaultMeanRatio = 2e-2;
constexpr double kClearGapRatio = 0.25;

struct DemoPrompt {
  std::vector<TokenId> ids;
  std::vector<TokenId> greedy;
};

std::vector<DemoPrompt> demo_prompts() {
  std::ifstream file(source_path("tests/data/golden/demo_golden.json"));
  const auto json = nlohmann::json::parse(file);
  std::vector<DemoPrompt> prompts;
  for (const auto& entry : json) prompts.push_back({entry.at("ids"), entry.at("greedy")});
  return prompts;
}

// Keeps every layer's stream and every layer's choice of experts.
class Recorder : public ForwardObserver {
 public:
  void on_layer(std::int64_t layer, ConstActivations stream) override {
    auto& kept = streams[layer];
    for (std::int64_t t = 0; t < stream.rows; ++t) {
      kept.insert(kept.end(), stream.row(t), stream.row(t) + stream.columns);
    }
  }
  void on_experts(std::int64_t layer, std::span<const std::int32_t> ids) override {
    auto& kept = experts[layer];
    kept.insert(kept.end(), ids.begin(), ids.end());
  }
  std::map<std::int64_t, std::vector<float>> streams;
  std::map<std::int64_t, std::vector<std::int32_t>> experts;
};

void expect_close(std::span<const float> got, const GoldenFile& golden, const std::string& name) {
  const Difference d = compare(got, golden.floats(name));
  EXPECT_LE(d.max_ratio(), kExactMaxRatio)
      << name << ": max error " << d.max_abs << ", std " << d.golden_std;
}

// One channel-block of a convolution window as the golden file has it: [inner, width-1].
std::vector<float> golden_window(const float* window, std::int64_t inner, std::int64_t kept,
                                 std::int64_t part) {
  std::vector<float> out;
  for (std::int64_t c = 0; c < inner; ++c) {
    for (std::int64_t j = 0; j < kept; ++j) out.push_back(window[j * 3 * inner + part * inner + c]);
  }
  return out;
}

void expect_caches_close(const Model& model, TestSequence& sequence, const GoldenFile& golden,
                         const std::string& prefix) {
  for (std::size_t l = 0; l < model.spec().layers.size(); ++l) {
    const LayerMemory& memory = model.memory().layers[l];
    const std::string name = fmt::format("{}cache.{}.", prefix, l);
    if (const auto* kda = std::get_if<KdaSpec>(&model.spec().layers[l].attention)) {
      const auto* state =
          reinterpret_cast<const float*>(sequence.state() + memory.state_offset_bytes);
      const auto size = static_cast<std::size_t>(kda->heads * kda->head_dim * kda->head_dim);
      expect_close({state, size}, golden, name + "S");
      const auto* window =
          reinterpret_cast<const float*>(sequence.state() + memory.window_offset_bytes);
      std::int64_t part = 0;
      for (const char* tensor : {"cq", "ck", "cv"}) {
        expect_close(golden_window(window, kda->inner(), kda->conv_width - 1, part++), golden,
                     name + tensor);
      }
      continue;
    }
    const MlaDims& dims = std::get<MlaSpec>(model.spec().layers[l].attention).dims;
    std::vector<float> latent, pe;
    for (std::int64_t t = 0; t < sequence.position(); ++t) {
      const auto* row = reinterpret_cast<const float*>(sequence.row(model, l, t));
      latent.insert(latent.end(), row, row + dims.latent);
      pe.insert(pe.end(), row + dims.latent, row + dims.latent + dims.pe);
    }
    expect_close(latent, golden, name + "c");
    expect_close(pe, golden, name + "kp");
  }
}

struct Case {
  const char* name;
  const char* folder;
  const KernelSet& (*kernels)();
  const char* kernel_name;
};

class GoldenParityTest : public testing::TestWithParam<Case> {};

TEST_P(GoldenParityTest, exact_matches_every_logit_stream_and_cache) {
  const auto model = load_model(GetParam().folder, Precision::kExact, GetParam().kernels());
  const GoldenFile golden(fmt::format("tests/data/golden/{}_golden.safetensors", GetParam().name));
  const std::vector<TokenId> ids = golden.ids("ids");
  ThreadTeam team(2);
  TestSequence sequence(*model, 16);
  Recorder recorder;
  const Matrix logits =
      run_chunks(*model, team, sequence, ids, {static_cast<std::int64_t>(ids.size())}, &recorder);
  expect_close(logits.values, golden, "logits");
  for (const auto& [layer, stream] : recorder.streams) {
    expect_close(stream, golden, fmt::format("stream.{}", layer));
  }
  expect_caches_close(*model, sequence, golden, "");
}

INSTANTIATE_TEST_SUITE_P(
    RandomCheckpoints, GoldenParityTest,
    testing::Values(
        Case{"k3_tiny", "tests/data/golden/k3_tiny", cpu_kernels, "cpu"},
        Case{"kimi_linear_tiny", "tests/data/golden/kimi_linear_tiny", cpu_kernels, "cpu"},
        Case{"k3_tiny", "tests/data/golden/k3_tiny", reference_kernels, "ref"},
        Case{"kimi_linear_tiny", "tests/data/golden/kimi_linear_tiny", reference_kernels, "ref"}),
    [](const auto& instance) {
      return fmt::format("{}_{}", instance.param.name, instance.param.kernel_name);
    });

TEST(DemoParityTest, exact_matches_every_logit_stream_and_cache) {
  const auto model = load_model("models/demo", Precision::kExact);
  const GoldenFile golden("tests/data/golden/demo_golden.safetensors");
  ThreadTeam team(2);
  const auto prompts = demo_prompts();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    TestSequence sequence(*model, 16);
    Recorder recorder;
    const auto tokens = static_cast<std::int64_t>(prompts[i].ids.size());
    const Matrix logits = run_chunks(*model, team, sequence, prompts[i].ids, {tokens}, &recorder);
    if (golden.has(fmt::format("{}.logits", i))) {
      expect_close(logits.values, golden, fmt::format("{}.logits", i));
    } else {
      const std::string name = fmt::format("{}.logits_last", i);
      const std::int64_t kept = golden.shape(name)[0];
      expect_close({logits.row(tokens - kept), static_cast<std::size_t>(kept * logits.columns)},
                   golden, name);
    }
    if (i != 0) continue;
    for (const auto& [layer, stream] : recorder.streams) {
      expect_close(stream, golden, fmt::format("0.stream.{}", layer));
    }
    expect_caches_close(*model, sequence, golden, "0.");
  }
}

TEST(DemoParityTest, exact_greedy_texts_are_equal) {
  const auto model = load_model("models/demo", Precision::kExact);
  ThreadTeam team(2);
  for (const DemoPrompt& prompt : demo_prompts()) {
    const auto limit = static_cast<std::int64_t>(prompt.greedy.size());
    EXPECT_EQ(greedy(*model, team, prompt.ids, model->spec().eos_id, limit), prompt.greedy);
  }
}

// Distance between the two largest values.
double top_gap(const float* logits, std::int64_t count) {
  float first = -INFINITY, second = -INFINITY;
  for (std::int64_t i = 0; i < count; ++i) {
    if (logits[i] > first) {
      second = std::exchange(first, logits[i]);
    } else {
      second = std::max(second, logits[i]);
    }
  }
  return static_cast<double>(first) - static_cast<double>(second);
}

// argmax must agree wherever the golden gap is clear; returns how many rows were that clear.
std::int64_t expect_clear_argmax_equal(const float* got, std::span<const float> golden,
                                       std::int64_t vocab, double golden_std) {
  std::int64_t clear = 0;
  for (std::int64_t t = 0; t < static_cast<std::int64_t>(golden.size()) / vocab; ++t) {
    const float* wanted = golden.data() + t * vocab;
    if (top_gap(wanted, vocab) < kClearGapRatio * golden_std) continue;
    ++clear;
    EXPECT_EQ(arg_max(got + t * vocab, vocab), arg_max(wanted, vocab)) << "row " << t;
  }
  return clear;
}

std::int64_t tokens_with_other_experts(const Recorder& a, const Recorder& b,
                                       const ModelSpec& spec) {
  std::int64_t changed = 0;
  for (const auto& [layer, ids] : a.experts) {
    const auto& other = b.experts.at(layer);
    const auto k = static_cast<std::size_t>(
        std::get<MoeSpec>(spec.layers[static_cast<std::size_t>(layer)].ffn).top_k);
    for (std::size_t t = 0; t * k < ids.size(); ++t) {
      changed += !std::equal(ids.begin() + static_cast<std::ptrdiff_t>(t * k),
                             ids.begin() + static_cast<std::ptrdiff_t>((t + 1) * k),
                             other.begin() + static_cast<std::ptrdiff_t>(t * k));
    }
  }
  return changed;
}

void expect_default_close(const std::string& label, const float* got, const GoldenFile& golden,
                          const std::string& name, std::int64_t vocab) {
  const auto wanted = golden.floats(name);
  const Difference d = compare({got, wanted.size()}, wanted);
  const std::int64_t clear = expect_clear_argmax_equal(got, wanted, vocab, d.golden_std);
  EXPECT_LE(d.mean_ratio(), kDefaultMeanRatio) << label;
  EXPECT_GT(clear, 0) << label;
  fmt::print(
      "{}: mean error {:.1e} of the standard deviation, max {:.1e}; {} rows with a clear argmax, "
      "all equal\n",
      label, d.mean_ratio(), d.max_ratio(), clear);
}

// Random weights amplify any rounding: one token sent to another expert moves all that follow, so
// the mean says more about the checkpoint than about the code. The median element is what rounding
// alone does.
TEST(DefaultPrecisionTest, random_checkpoints_stay_close_in_the_median) {
  ThreadTeam team(2);
  for (const char* name : {"k3_tiny", "kimi_linear_tiny"}) {
    const auto model = load_model(fmt::format("tests/data/golden/{}", name), Precision::kDefault);
    const auto exact = load_model(fmt::format("tests/data/golden/{}", name), Precision::kExact);
    const GoldenFile golden(fmt::format("tests/data/golden/{}_golden.safetensors", name));
    const auto ids = golden.ids("ids");
    // Several chunks, so that windows and latent rows do pass through their bf16 storage.
    const std::vector<std::int64_t> chunks = {64, 64, static_cast<std::int64_t>(ids.size()) - 128};
    Recorder ours, theirs;
    TestSequence sequence(*model, 16), other(*exact, 16);
    const Matrix logits = run_chunks(*model, team, sequence, ids, chunks, &ours);
    run_chunks(*exact, team, other, ids, chunks, &theirs);
    const Difference d = compare(logits.values, golden.floats("logits"));
    EXPECT_LE(d.median_abs, kDefaultMeanRatio * d.golden_std) << name;
    fmt::print(
        "{}: median error {:.1e} of the standard deviation, mean {:.1e}; {} of {} token-layers "
        "chose other experts\n",
        name, d.median_abs / d.golden_std, d.mean_ratio(),
        tokens_with_other_experts(ours, theirs, model->spec()), ids.size() * theirs.experts.size());
  }
}

TEST(DefaultPrecisionTest, demo_prompts_stay_within_the_mean_bound) {
  const auto model = load_model("models/demo", Precision::kDefault);
  const auto exact = load_model("models/demo", Precision::kExact);
  const GoldenFile golden("tests/data/golden/demo_golden.safetensors");
  ThreadTeam team(2);
  std::int64_t changed = 0, total = 0;
  const auto prompts = demo_prompts();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto tokens = static_cast<std::int64_t>(prompts[i].ids.size());
    const std::vector<std::int64_t> chunks = {tokens / 2, tokens - tokens / 2};
    Recorder ours, theirs;
    TestSequence sequence(*model, 16), other(*exact, 16);
    const Matrix logits = run_chunks(*model, team, sequence, prompts[i].ids, chunks, &ours);
    run_chunks(*exact, team, other, prompts[i].ids, chunks, &theirs);
    const bool all = golden.has(fmt::format("{}.logits", i));
    const std::string name = fmt::format("{}.{}", i, all ? "logits" : "logits_last");
    const std::int64_t first = all ? 0 : tokens - golden.shape(name)[0];
    expect_default_close(fmt::format("demo prompt {}", i), logits.row(first), golden, name,
                         logits.columns);
    changed += tokens_with_other_experts(ours, theirs, model->spec());
    total += tokens * static_cast<std::int64_t>(theirs.experts.size());
  }
  fmt::print("demo: {} of {} token-layers chose other experts\n", changed, total);
}

TEST(DefaultPrecisionTest, greedy_texts_are_equal_up_to_a_near_tie) {
  const auto model = load_model("models/demo", Precision::kDefault);
  const auto exact = load_model("models/demo", Precision::kExact);
  ThreadTeam team(2);
  for (const DemoPrompt& prompt : demo_prompts()) {
    const auto answer = greedy(*model, team, prompt.ids, model->spec().eos_id,
                               static_cast<std::int64_t>(prompt.greedy.size()));
    const auto differs = static_cast<std::size_t>(
        std::mismatch(answer.begin(), answer.end(), prompt.greedy.begin(), prompt.greedy.end())
            .first -
        answer.begin());
    if (differs == prompt.greedy.size()) continue;
    // The exact run, which equals the golden text, says how clear the choice was there.
    std::vector<TokenId> ids = prompt.ids;
    ids.insert(ids.end(), prompt.greedy.begin(),
               prompt.greedy.begin() + static_cast<std::ptrdiff_t>(differs));
    TestSequence sequence(*exact, 16);
    const Matrix logits =
        run_chunks(*exact, team, sequence, ids, {static_cast<std::int64_t>(ids.size())});
    const double std_dev = compare(logits.values, logits.values).golden_std;
    const double gap = top_gap(logits.row(logits.rows - 1), logits.columns) / std_dev;
    fmt::print(
        "greedy text differs from token {} on, where the gap is {:.3f} standard deviations\n",
        differs, gap);
    EXPECT_LT(gap, kClearGapRatio);
  }
}

}  // namespace
}  // namespace tandem
