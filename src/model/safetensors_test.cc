#include "model/safetensors.h"

#include <gtest/gtest.h>
// RapidCheck's header needs GoogleTest's before it.
#include <rapidcheck/gtest.h>

#include <limits>

#include "support/edited_checkpoint.h"

namespace tandem {
namespace {

struct BadHeader : NamedCase {
  const char* header;
  std::uint64_t data_bytes;
  std::vector<std::string> message;
};

class BadHeaderTest : public testing::TestWithParam<BadHeader> {};

TEST_P(BadHeaderTest, is_refused_naming_file_tensor_and_expectation) {
  const auto parsed =
      parse_safetensors_header(GetParam().header, GetParam().data_bytes, "dir/x.st");
  ASSERT_FALSE(parsed);
  std::vector<std::string> parts = GetParam().message;
  parts.push_back("dir/x.st: ");
  expect_one_line(parsed.error().message, parts);
  EXPECT_EQ(exit_code(parsed.error().code), 2);
}

#define F32_AT(begin, end) R"({"dtype":"F32","shape":[2],"data_offsets":[)" #begin "," #end "]}"

const BadHeader kBadHeaders[] = {
    {"empty", "", 0, {"not valid JSON"}},
    {"not_json", R"({"a":)", 0, {"not valid JSON at its byte 6"}},
    {"two_documents", "{} {}", 0, {"not valid JSON at its byte 4"}},
    {"not_utf8", "{\"a\xff\":{}}", 0, {"not valid JSON"}},
    {"a_list", "[]", 0, {"the header is a list", "expected a JSON object"}},
    {"a_number", "5", 0, {"the header is 5", "expected a JSON object"}},
    {"deep", "[[[[[[[[[[[[", 0, {"expected a JSON object"}},
    {"tensor_is_null", R"({"a":null})", 0, {"'a' is null", "dtype, shape and data_offsets"}},
    {"tensor_is_a_list", R"({"a":[]})", 0, {"'a' is a list"}},
    {"metadata_of_numbers",
     R"({"__metadata__":{"format":1}})",
     0,
     {"__metadata__", "strings only"}},
    {"no_dtype", R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8, {"'a' has no dtype"}},
    {"no_shape", R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8, {"'a' has no shape"}},
    {"no_offsets", R"({"a":{"dtype":"F32","shape":[2]}})", 8, {"'a' has no data_offsets"}},
    {"unknown_dtype",
     R"({"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})",
     2,
     {"'a' has dtype 'F8_E4M3'", "expected BF16"}},
    {"dtype_is_a_number", R"({"a":{"dtype":4}})", 0, {"'a': dtype is 4", "expected a string"}},
    {"shape_is_a_string", R"({"a":{"shape":"2"}})", 0, {"'a': shape is '2'", "list of integers"}},
    {"negative_size",
     R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
     8,
     {"'a': shape holds -2", "integers >= 0"}},
    {"fractional_size",
     R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})",
     8,
     {"'a': shape holds 2.5"}},
    {"size_beyond_63_bits",
     R"({"a":{"dtype":"F32","shape":[9223372036854775808]}})",
     8,
     {"'a': shape holds 9223372036854775808"}},
    {"product_overflows",
     R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
     0,
     {"'a' of shape [4294967296, 4294967296] is too large"}},
    {"too_many_dimensions",
     R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1]}})",
     4,
     {"'a' has more than 8 dimensions"}},
    {"negative_offset",
     R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})",
     8,
     {"'a': data_offsets holds -8", "integers >= 0"}},
    {"one_offset",
     R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})",
     8,
     {"'a' has 1 data_offsets; expected 2"}},
    {"three_offsets",
     R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})",
     8,
     {"'a' has more than 2 data_offsets"}},
    {"offsets_reversed",
     R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})",
     8,
     {"'a' has data_offsets [8, 0]", "expected 8 bytes"}},
    {"size_disagrees",
     R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
     8,
     {"'a' has data_offsets [0, 8]", "expected 12 bytes for F32 [3]"}},
    {"past_the_end", R"({"a":)" F32_AT(8, 16) "}", 12, {"'a' ends at byte 16", "holds 12"}},
    {"offset_near_2_to_64",
     R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[18446744073709551600,18446744073709551608]}})",
     8,
     {"'a' ends at byte 18446744073709551608"}},
    {"overlap",
     R"({"a":)" F32_AT(0, 8) R"(,"b":)" F32_AT(4, 12) "}",
     12,
     {"'b' begins at byte 4", "inside tensor 'a'", "ends at 8"}},
    {"same_bytes_twice",
     R"({"a":)" F32_AT(0, 8) R"(,"b":)" F32_AT(0, 8) "}",
     8,
     {"'b' begins at byte 0", "inside tensor 'a'"}},
    {"hole_at_the_start", R"({"a":)" F32_AT(4, 12) "}", 12, {"4 bytes before tensor 'a'"}},
    {"hole",
     R"({"a":)" F32_AT(0, 8) R"(,"b":)" F32_AT(12, 20) "}",
     20,
     {"4 bytes before tensor 'b'"}},
    {"trailing_bytes", R"({"a":)" F32_AT(0, 8) "}", 9, {"1 bytes after the last tensor 'a'"}},
    {"name_twice",
     R"({"a":)" F32_AT(0, 8) R"(,"a":)" F32_AT(8, 16) "}",
     16,
     {"'a' is listed twice"}},
    {"field_twice", R"({"a":{"dtype":"F32","dtype":"F32"}})", 0, {"'a' has dtype twice"}},
    {"unknown_field", R"({"a":{"dtype":"F32","strides":[1]}})", 0, {"'a' has a field 'strides'"}},
    {"name_with_newline", "{\"a\\nb\":null}", 0, {"'a?b' is null"}},
};

INSTANTIATE_TEST_SUITE_P(all, BadHeaderTest, testing::ValuesIn(kBadHeaders), CaseName());

TEST(SafetensorsHeader, accepts_metadata_padding_scalars_and_empty_tensors) {
  const auto parsed = parse_safetensors_header(
      R"({"__metadata__":{"format":"pt"},"scalar":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("none":{"dtype":"BF16","shape":[0,7],"data_offsets":[4,4]},)"
      R"("bytes":{"data_offsets":[4,7],"shape":[3],"dtype":"U8"}}   )",
      7, "x");
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->size(), 3u);
  EXPECT_EQ(parsed->at("scalar").elements(), 1);
  EXPECT_EQ(parsed->at("none").elements(), 0);
  EXPECT_EQ(parsed->at("bytes").begin, 4u);
}

TEST(SafetensorsHeader, message_about_a_very_long_name_stays_short) {
  const std::string header = "{\"" + std::string(100'000, 'n') + "\":null}";
  const auto parsed = parse_safetensors_header(header, 0, "x");
  ASSERT_FALSE(parsed);
  expect_one_line(parsed.error().message, {"nnn...nnn"});
}

// Damage to a whole file; the original is k3_tiny's.
struct Damage : NamedCase {
  void (*apply)(std::string& file);
  std::vector<std::string> message;
};

std::uint64_t header_bytes(const std::string& file) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  return length;
}

void set_header_bytes(std::string& file, std::uint64_t length) {
  std::memcpy(file.data(), &length, sizeof(length));
}

const Damage kDamages[] = {
    {"empty", [](std::string& f) { f.clear(); }, {"0 bytes", "expected a safetensors file"}},
    {"seven_bytes", [](std::string& f) { f.resize(7); }, {"7 bytes"}},
    {"only_the_length", [](std::string& f) { f.resize(8); }, {"only 0 bytes follow"}},
    {"header_cut", [](std::string& f) { f.resize(1000); }, {"header length is", "only 992 bytes"}},
    {"kilobyte_cut",
     [](std::string& f) { f.resize(f.size() - 1024); },
     {"tensor 'language_model.", "ends at byte", "cut short"}},
    {"all_data_cut",
     [](std::string& f) { f.resize(8 + header_bytes(f)); },
     {"tensor 'language_model.", "the file holds 0"}},
    {"length_zeroed", [](std::string& f) { set_header_bytes(f, 0); }, {"header length is 0"}},
    {"length_2_to_63",
     [](std::string& f) { set_header_bytes(f, std::uint64_t{1} << 63); },
     {"header length is 9223372036854775808", "expected 1 to 100000000"}},
    {"length_all_ones",
     [](std::string& f) { set_header_bytes(f, std::numeric_limits<std::uint64_t>::max()); },
     {"header length is 18446744073709551615"}},
    {"length_one_short", [](std::string& f) { set_header_bytes(f, 5000); }, {"not valid JSON"}},
    {"length_beyond_the_file",
     [](std::string& f) { set_header_bytes(f, 90'000'000); },
     {"header length is 90000000", "cut short"}},
    {"trailing_byte", [](std::string& f) { f += 'x'; }, {"1 bytes after the last tensor"}},
};

class DamagedFileTest : public testing::TestWithParam<Damage> {};

TEST_P(DamagedFileTest, is_refused_naming_the_file) {
  const TempFolder folder;
  const auto path = folder / "model.safetensors";
  std::string file = read_text(source_folder() / "tests/data/golden/k3_tiny/model.safetensors");
  GetParam().apply(file);
  write_text(path, file);
  const auto opened = SafetensorsFile::open(path);
  ASSERT_FALSE(opened);
  std::vector<std::string> parts = GetParam().message;
  parts.push_back(path.string() + ": ");
  expect_one_line(opened.error().message, parts);
}

INSTANTIATE_TEST_SUITE_P(all, DamagedFileTest, testing::ValuesIn(kDamages), CaseName());

TEST(SafetensorsFile, folder_and_absent_file_are_refused) {
  const TempFolder folder;
  expect_one_line(SafetensorsFile::open(folder.path()).error().message, {"not a regular file"});
  const auto absent = SafetensorsFile::open(folder / "none.safetensors");
  EXPECT_EQ(absent.error().code, StatusCode::kNotFound);
  expect_one_line(absent.error().message, {"none.safetensors", "No such file"});
}

RC_GTEST_PROP(Safetensors, written_tensors_read_back_equal, ()) {
  constexpr DType kTypes[] = {DType::kU8, DType::kBF16, DType::kF32, DType::kI64};
  std::map<std::string, EditableTensor> tensors;
  const auto names = *rc::gen::container<std::vector<std::string>>(rc::gen::string<std::string>());
  for (std::string name : names) {
    for (char& c : name) c = static_cast<char>(c & 0x7f);  // any ASCII, control characters included
    if (name == "__metadata__") continue;
    EditableTensor tensor;
    tensor.dtype = kTypes[*rc::gen::inRange(0, 4)];
    std::size_t bytes = element_bytes(tensor.dtype);
    const int rank = *rc::gen::inRange(0, 4);
    for (int i = 0; i < rank; ++i) {
      tensor.shape.push_back(*rc::gen::inRange(0, 5));
      bytes *= static_cast<std::size_t>(tensor.shape.back());
    }
    tensor.bytes = std::string(bytes, static_cast<char>(*rc::gen::inRange(0, 128)));
    tensors[name] = tensor;
  }
  const TempFolder folder;
  EditableCheckpoint{{}, tensors}.write_shard(folder / "x.safetensors", "");
  const auto file = SafetensorsFile::open(folder / "x.safetensors");
  RC_ASSERT(file.has_value());
  RC_ASSERT((*file)->tensors().size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const TensorEntry& entry = (*file)->tensors().at(name);
    const auto bytes = (*file)->bytes(entry);
    RC_ASSERT(entry.dtype == tensor.dtype);
    RC_ASSERT(entry.shape == tensor.shape);
    RC_ASSERT(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()) ==
              tensor.bytes);
  }
}

}  // namespace
}  // namespace tandem
