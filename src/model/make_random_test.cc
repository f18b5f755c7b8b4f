#include "model/make_random.h"

#include <cmath>
#include <cstring>
#include <set>

#include "base/philox.h"
#include "model/config.h"
#include "model/random_weights.h"
#include "model/weights.h"
#include "support/edited_checkpoint.h"

namespace tandem {
namespace {

std::filesystem::path config_path(std::string_view name) {
  return source_folder() / "tests/data/configs" / (std::string(name) + ".config.json");
}
const std::filesystem::path kTinyLinear =
    std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/golden/kimi_linear_tiny";

// All files of a folder by name, with what is in them.
std::map<std::string, std::string> contents(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_text(entry.path());
  }
  return files;
}

std::map<std::string, std::string> make(const std::filesystem::path& config,
                                        const MakeRandomOptions& options) {
  const TempFolder folder;
  const auto made = make_random_checkpoint(config, folder.path(), options);
  EXPECT_TRUE(made) << made.error().message;
  return contents(folder.path());
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Made {
  const char* name;
  std::filesystem::path config;
  MakeRandomOptions options;
  std::size_t layers;
};

TEST(MakeRandom, what_it_writes_loads_and_holds_the_generator_s_values) {
  const std::vector<Made> cases = {
      {"k3", config_path("k3-tiny-24h"), {.seed = 7, .shard_bytes = 1 << 20, .threads = 2}, 13},
      {"kimi_linear", kTinyLinear, {.seed = 8, .layers = 3, .shard_bytes = 100'000}, 3}};
  for (const Made& made : cases) {
    SCOPED_TRACE(made.name);
    const TempFolder parent;
    const std::filesystem::path folder = parent / "new/folder";
    const auto result = make_random_checkpoint(made.config, folder, made.options);
    ASSERT_TRUE(result) << result.error().message;
    const auto spec = read_config(folder);
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(spec->layers.size(), made.layers);
    const auto weights = load_weights(*spec, Checkpoint::open(folder).value());
    ASSERT_TRUE(weights) << weights.error().message;
    EXPECT_TRUE(weights->storage.empty()) << "everything is aligned";

    std::set<std::string> shards;
    const std::vector<RandomTensor> tensors = random_tensors(*spec).value();
    for (const RandomTensor& tensor : tensors) {
      const TensorEntry* entry = weights->checkpoint.find(tensor.info.name);
      ASSERT_NE(entry, nullptr);
      shards.insert(weights->checkpoint.file_of(*entry).filename());
      std::vector<std::byte> expected(tensor.bytes());
      fill_random(tensor, made.options.seed, 0, expected);
      ASSERT_EQ(text_of(weights->checkpoint.bytes(*entry)), text_of(expected)) << tensor.info.name;
    }
    EXPECT_GT(shards.size(), 5u);
    EXPECT_TRUE(shards.begin()->starts_with("model-00001-of-"));
  }
}

TEST(MakeRandom, same_seed_same_bytes_whatever_the_threads_and_another_seed_differs) {
  const auto one = make(kTinyLinear, {.seed = 1});
  EXPECT_EQ(one, make(kTinyLinear, {.seed = 1, .threads = 2}));
  const auto other = make(kTinyLinear, {.seed = 2});
  for (const auto& [name, bytes] : one) {
    EXPECT_EQ(bytes == other.at(name), !name.ends_with(".safetensors")) << name;
  }
}

TEST(MakeRandom, a_cut_model_has_the_weights_of_the_whole_one) {
  const auto spec = parse_config(read_text(kTinyLinear / "config.json"), "c").value();
  const TempFolder folder;
  ASSERT_TRUE(make_random_checkpoint(kTinyLinear, folder.path(), {.seed = 3, .layers = 2}));
  const auto cut = Checkpoint::open(folder.path()).value();
  std::size_t found = 0;
  const std::vector<RandomTensor> tensors = random_tensors(spec).value();
  for (const RandomTensor& tensor : tensors) {
    const TensorEntry* entry = cut.find(tensor.info.name);
    if (entry == nullptr) continue;
    ++found;
    std::vector<std::byte> expected(tensor.bytes());
    fill_random(tensor, 3, 0, expected);
    ASSERT_EQ(text_of(cut.bytes(*entry)), text_of(expected)) << tensor.info.name;
  }
  EXPECT_EQ(found, cut.tensors().size());
}

TEST(MakeRandom, cutting_keeps_every_other_field_of_the_configuration) {
  const auto files = make(config_path("k3-tiny-24h"), {.layers = 5});
  auto expected = nlohmann::json::parse(read_text(config_path("k3-tiny-24h")));
  expected["text_config"]["num_hidden_layers"] = 5;
  expected["text_config"]["linear_attn_config"]["kda_layers"] = {1, 2, 4, 5};
  expected["text_config"]["linear_attn_config"]["full_attn_layers"] = {3};
  EXPECT_EQ(nlohmann::json::parse(files.at("config.json")), expected);
}

TEST(MakeRandom, uncut_configuration_is_copied_byte_for_byte) {
  EXPECT_EQ(make(kTinyLinear, {}).at("config.json"), read_text(kTinyLinear / "config.json"));
}

TEST(MakeRandom, progress_rises_to_one) {
  std::vector<double> shares;
  make(kTinyLinear, {.progress =
                         [](double share, void* context) {
                           static_cast<std::vector<double>*>(context)->push_back(share);
                         },
                     .progress_context = &shares});
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_EQ(shares.back(), 1.0);
}

TEST(MakeRandom, bad_input_is_refused_before_anything_is_written) {
  const TempFolder folder;
  const auto refused = [&](const std::filesystem::path& config, const std::filesystem::path& out,
                           const MakeRandomOptions& options, const char* message) {
    const auto made = make_random_checkpoint(config, out, options);
    ASSERT_FALSE(made);
    expect_one_line(made.error().message, {message});
  };
  const auto out = folder / "out";
  refused(folder / "none.json", out, {}, "none.json: no such file");
  refused(kTinyLinear, out, {.layers = 0}, "0 layers asked for; expected 1 to 5");
  refused(kTinyLinear, out, {.layers = 6}, "6 layers asked for; expected 1 to 5");
  EXPECT_FALSE(std::filesystem::exists(out));
  write_text(folder / "file", "x");
  refused(kTinyLinear, folder / "file", {}, "file: cannot be made a folder");
  refused(kTinyLinear, folder.path(), {}, "not empty");
  EXPECT_EQ(read_text(folder / "file"), "x");
  // Two petabytes of experts.
  auto huge = nlohmann::json::parse(read_text(config_path("kimi-linear-48b")));
  huge.update({{"hidden_size", 1 << 20}, {"moe_intermediate_size", 1 << 20}, {"num_experts", 16}});
  write_text(folder / "huge.json", huge.dump());
  refused(folder / "huge.json", out, {}, "bytes to write");
}

TEST(RandomTensors, of_the_published_models_are_as_many_as_the_published_checkpoints_hold) {
  const auto list = [](std::string_view name) {
    return random_tensors(parse_config(read_text(config_path(name)), name).value()).value();
  };
  EXPECT_EQ(list("kimi-k3").size(), 497'052u);
  const std::vector<RandomTensor> linear = list("kimi-linear-48b");
  EXPECT_EQ(linear.size(), 20'493u);
  std::int64_t elements = 0;
  for (const RandomTensor& tensor : linear) elements += tensor.elements();
  EXPECT_NEAR(static_cast<double>(elements), 49.12e9, 0.01e9);
}

TEST(RandomTensors, packed_experts_need_widths_of_whole_groups) {
  auto spec = parse_config(read_text(config_path("k3-tiny-24h")), "c").value();
  std::get<MoeSpec>(spec.layers[1].ffn).latent = 48;
  const auto tensors = random_tensors(spec);
  ASSERT_FALSE(tensors);
  expect_one_line(tensors.error().message, {"experts.0.w1'", "48 inputs", "multiple of 32"});
}

std::vector<float> floats(const RandomTensor& tensor, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  std::vector<std::byte> bytes(tensor.bytes());
  fill_random(tensor, seed, 0, bytes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (tensor.info.dtype == DType::kF32) {
      std::memcpy(&values[i], bytes.data() + 4 * i, 4);
    } else {
      BF16 element;
      std::memcpy(&element, bytes.data() + 2 * i, 2);
      values[i] = to_float(element);
    }
  }
  return values;
}

// The formulas of random_weights.h, written a second time.
TEST(FillRandom, follows_its_published_definition) {
  const std::uint64_t seed = 0x0123456789abcdef;
  const std::string name = "a.weight";
  std::uint64_t hash = 0xcbf29ce484222325;
  for (char c : name) hash = (hash ^ static_cast<std::uint64_t>(c)) * 0x100000001b3;
  const auto block = [&](std::uint32_t b) {
    return philox(seed,
                  {b, 0, static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)});
  };
  RandomTensor tensor = {{name, DType::kF32, {5, 7}},
                         {RandomValues::Kind::kNormal, 1.0f, 0.5f, 33}};
  const auto normal = floats(tensor, seed);
  const std::uint32_t word = block(3)[2];  // of element 14
  const int sum =
      static_cast<int>((word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24));
  EXPECT_EQ(normal[14], 1.0f + 0.5f * static_cast<float>(sum - 510));
  EXPECT_NE(normal[32], 0.0f);
  EXPECT_EQ(normal[33], 0.0f);

  tensor.values.kind = RandomValues::Kind::kUniform;
  EXPECT_EQ(floats(tensor, seed)[14], 1.0f + 0.5f * static_cast<float>(word >> 8));

  tensor.info.dtype = DType::kU8;
  tensor.values = {RandomValues::Kind::kByte};
  std::vector<std::byte> bytes(35);
  fill_random(tensor, seed, 0, bytes);
  EXPECT_EQ(std::to_integer<std::uint32_t>(bytes[27]), block(1)[2] >> 24);
  tensor.values = {RandomValues::Kind::kScale, 120.0f};
  const int step[] = {-1, 0, 0, 1};
  fill_random(tensor, seed, 0, bytes);
  EXPECT_EQ(std::to_integer<int>(bytes[27]), 120 + step[block(1)[2] >> 24 & 3]);
}

TEST(FillRandom, any_part_equals_that_part_of_the_whole) {
  const RandomTensor tensor = {{"t", DType::kBF16, {1000}},
                               {RandomValues::Kind::kNormal, 0.0f, 0.01f}};
  std::vector<std::byte> whole(2000);
  fill_random(tensor, 5, 0, whole);
  for (const std::int64_t first : {16, 496, 992}) {
    std::vector<std::byte> part(
        std::min<std::size_t>(90, 2000 - 2 * static_cast<std::size_t>(first)));
    fill_random(tensor, 5, first, part);
    EXPECT_EQ(std::memcmp(part.data(), whole.data() + 2 * first, part.size()), 0) << first;
  }
}

TEST(FillRandom, tensors_of_different_names_differ) {
  const RandomTensor a = {{"a", DType::kF32, {64}}, {RandomValues::Kind::kNormal, 0.0f, 1.0f}};
  RandomTensor b = a;
  b.info.name = "b";
  EXPECT_NE(floats(a, 1), floats(b, 1));
}

TEST(RandomTensors, have_the_scales_that_they_announce) {
  const auto spec = parse_config(read_text(config_path("k3-tiny-24h")), "c").value();
  struct Expected {
    const char* name;
    double mean, std;
  };
  const Expected expected[] = {
      {"language_model.model.embed_tokens.weight", 0, 1},
      {"language_model.lm_head.weight", 0, 1.0 / 16},
      {"language_model.model.layers.0.self_attn.q_proj.weight", 0, 1.0 / 16},
      {"language_model.model.layers.0.mlp.down_proj.weight", 0, 1 / std::sqrt(768.0)},
      {"language_model.model.layers.0.self_attn.k_conv1d.weight", 0, 0.35},
      {"language_model.model.layers.0.self_attn.dt_bias", -1, 1 / std::sqrt(12.0)},
      {"language_model.model.layers.5.mlp_res_norm.weight", 1, 0.1},
  };
  const auto tensors = random_tensors(spec).value();
  for (const auto& [name, mean, std] : expected) {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const RandomTensor& t) { return t.info.name == name; });
    ASSERT_NE(found, tensors.end()) << name;
    const auto values = floats(*found, 11);
    double sum = 0, squares = 0;
    for (float value : values) sum += value;
    const double got_mean = sum / static_cast<double>(values.size());
    for (float value : values) squares += (value - got_mean) * (value - got_mean);
    const double got_std = std::sqrt(squares / static_cast<double>(values.size()));
    // Five standard errors of a sample this large.
    const double tolerance = 5 * std / std::sqrt(static_cast<double>(values.size()));
    EXPECT_NEAR(got_mean, mean, tolerance) << name;
    EXPECT_NEAR(got_std, std, tolerance + 0.005 * std) << name;
  }
}

}  // namespace
}  // namespace tandem
