#include "model/checkpoint.h"

#include "model/shard_index.h"
#include "support/edited_checkpoint.h"

namespace tandem {
namespace {

using nlohmann::json;

const char* const kIndex = "model.safetensors.index.json";

// Two shards, a.safetensors with a1 and a2, b.safetensors with b1, and their index.
class TwoShards : public testing::Test {
 protected:
  TwoShards() {
    for (const char* name : {"a1", "a2", "b1"}) {
      content_.tensors[name] = {DType::kU8, {2}, std::string(name)};
      index_["weight_map"][name] = std::string(1, name[0]) + ".safetensors";
    }
    content_.write_shard(folder_ / "a.safetensors", "a");
    content_.write_shard(folder_ / "b.safetensors", "b");
  }

  Result<Checkpoint> open() {
    write_text(folder_ / kIndex, index_.dump());
    return Checkpoint::open(folder_.path());
  }
  void expect_refused(const std::vector<std::string>& parts) {
    const auto opened = open();
    ASSERT_FALSE(opened);
    expect_one_line(opened.error().message, parts);
    EXPECT_EQ(exit_code(opened.error().code), 2);
  }

  TempFolder folder_;
  EditableCheckpoint content_;
  json index_ = {{"metadata", {{"total_size", 6}}}};
};

TEST_F(TwoShards, open_and_give_each_tensor_its_bytes_and_file) {
  const auto checkpoint = open();
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->total_bytes(), 6);
  for (const auto& [name, entry] : checkpoint->tensors()) {
    const auto bytes = checkpoint->bytes(entry);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), name);
    EXPECT_EQ(checkpoint->file_of(entry).filename(), std::string(1, name[0]) + ".safetensors");
  }
  EXPECT_EQ(checkpoint->find("c1"), nullptr);
}

TEST_F(TwoShards, views_survive_a_move) {
  auto opened = open();
  const std::byte* before = opened->bytes(*opened->find("b1")).data();
  const Checkpoint moved = *std::move(opened);
  EXPECT_EQ(moved.bytes(*moved.find("b1")).data(), before);
}

TEST_F(TwoShards, missing_shard_is_named_with_a_tensor_of_it) {
  std::filesystem::remove(folder_ / "b.safetensors");
  expect_refused({kIndex, "'b.safetensors' is missing", "'b1'"});
}

TEST_F(TwoShards, extra_shard_is_refused) {
  content_.write_shard(folder_ / "model-00003-of-00003.safetensors", "b");
  expect_refused({"model-00003-of-00003.safetensors: ", kIndex, "does not name this file"});
}

TEST_F(TwoShards, index_naming_an_absent_tensor_is_refused) {
  index_["weight_map"]["a3"] = "a.safetensors";
  expect_refused({kIndex, "'a3'", "'a.safetensors'", "does not hold it"});
}

TEST_F(TwoShards, index_naming_the_wrong_shard_is_refused) {
  index_["weight_map"]["a2"] = "b.safetensors";
  expect_refused({kIndex, "'a2'", "'b.safetensors'", "does not hold it"});
}

TEST_F(TwoShards, tensor_absent_from_the_index_is_refused) {
  index_["weight_map"].erase("a2");
  expect_refused({"a.safetensors: ", "'a2'", "not listed in"});
}

TEST_F(TwoShards, tensor_in_both_shards_is_refused) {
  content_.tensors["ba"] = content_.tensors["a1"];
  content_.write_shard(folder_ / "b.safetensors", "");
  expect_refused({"b.safetensors: ", "'a1'", "also in", "a.safetensors"});
}

TEST_F(TwoShards, damaged_shard_is_named) {
  const std::string shard = read_text(folder_ / "b.safetensors");
  write_text(folder_ / "b.safetensors", shard.substr(0, shard.size() - 1));
  expect_refused({"b.safetensors: ", "'b1'", "ends at byte 2"});
}

TEST_F(TwoShards, path_in_place_of_a_shard_name_is_refused) {
  for (const char* path : {"../b.safetensors", "/etc/passwd", "sub/b.safetensors", "..", ".", "",
                           "sub\\b.safetensors"}) {
    index_["weight_map"]["b1"] = path;
    expect_refused({kIndex, "'b1'", std::string("'") + path + "'", "same folder"});
  }
  index_["weight_map"]["b1"] = std::string("b.safetensors\0x", 15);
  expect_refused({kIndex, "'b1'", "same folder"});
}

TEST_F(TwoShards, symbolic_links_to_shards_are_followed) {
  const TempFolder blobs;
  std::filesystem::rename(folder_ / "b.safetensors", blobs / "0123");
  std::filesystem::create_symlink(blobs / "0123", folder_ / "b.safetensors");
  const auto opened = open();
  EXPECT_TRUE(opened) << opened.error().message;
}

struct BadIndex : NamedCase {
  const char* json;
  std::vector<std::string> message;
};
class BadIndexTest : public testing::TestWithParam<BadIndex> {};

TEST_P(BadIndexTest, is_refused) {
  const auto index = parse_shard_index(GetParam().json, "dir/index");
  ASSERT_FALSE(index);
  std::vector<std::string> parts = GetParam().message;
  parts.push_back("dir/index: ");
  expect_one_line(index.error().message, parts);
}

const BadIndex kBadIndexes[] = {
    {"empty", "", {"not valid JSON"}},
    {"cut", R"({"weight_map":{"a":)", {"not valid JSON at byte 20"}},
    {"a_list", "[]", {"the index is a list"}},
    {"no_weight_map", "{}", {"no weight_map"}},
    {"empty_weight_map", R"({"weight_map":{}})", {"an empty one"}},
    {"weight_map_is_a_list", R"({"weight_map":["a"]})", {"weight_map is a list"}},
    {"weight_map_is_null", R"({"weight_map":null})", {"weight_map is null"}},
    {"weight_map_twice", R"({"weight_map":{"a":"x"},"weight_map":{"b":"x"}})", {"comes twice"}},
    {"file_is_a_number", R"({"weight_map":{"a":1}})", {"gives tensor 'a' a number"}},
    {"file_is_an_object", R"({"weight_map":{"a":{}}})", {"gives tensor 'a' an object"}},
    {"tensor_twice", R"({"weight_map":{"a":"x","a":"y"}})", {"lists tensor 'a' twice"}},
};
INSTANTIATE_TEST_SUITE_P(all, BadIndexTest, testing::ValuesIn(kBadIndexes), CaseName());

TEST(ShardIndex, ignores_what_stands_beside_the_weight_map) {
  const auto index = parse_shard_index(
      R"({"metadata":{"weight_map":{"z":5},"list":[{"a":[1]}]},"weight_map":{"b":"y","a":"x"},"n":1})",
      "i");
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_EQ(index->files, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(index->tensors.at("b"), 1u);
  EXPECT_EQ(index->tensors.size(), 2u);
}

TEST(Checkpoint, single_file_needs_no_index) {
  const TempFolder folder;
  EditableCheckpoint content;
  content.tensors["a"] = {DType::kU8, {1}, "x"};
  content.write_shard(folder / "model.safetensors", "");
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_NE(checkpoint->find("a"), nullptr);

  content.write_shard(folder / "model-00001-of-00002.safetensors", "");
  expect_one_line(Checkpoint::open(folder.path()).error().message,
                  {"model-00001-of-00002.safetensors: ", "does not name this file"});
}

TEST(Checkpoint, folder_without_weights_or_no_folder_is_not_found) {
  const TempFolder folder;
  const auto empty = Checkpoint::open(folder.path());
  EXPECT_EQ(empty.error().code, StatusCode::kNotFound);
  expect_one_line(empty.error().message, {folder.path().string(), "no weights; expected", kIndex});
  const auto absent = Checkpoint::open(folder / "none");
  EXPECT_EQ(absent.error().code, StatusCode::kNotFound);
  expect_one_line(absent.error().message, {"none", "no such folder"});
}

}  // namespace
}  // namespace tandem
