#include "tensor/mxfp4.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tandem {
namespace {

// The tensors of tests/data/golden/mxfp4_cases.safetensors, as the oracle wrote them.
class Mxfp4Golden : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ifstream file(TANDEM_SOURCE_DIR "/tests/data/golden/mxfp4_cases.safetensors",
                       std::ios::binary);
    file_.assign(std::istreambuf_iterator<char>(file), {});
    ASSERT_GT(file_.size(), sizeof(header_bytes_));
    std::memcpy(&header_bytes_, file_.data(), sizeof(header_bytes_));
    header_ = nlohmann::json::parse(file_.substr(sizeof(header_bytes_), header_bytes_));
  }

  template <typename T>
  std::vector<T> tensor(const std::string& name) const {
    const std::size_t begin = header_.at(name).at("data_offsets").at(0);
    const std::size_t end = header_.at(name).at("data_offsets").at(1);
    std::vector<T> values((end - begin) / sizeof(T));
    std::memcpy(values.data(), file_.data() + sizeof(header_bytes_) + header_bytes_ + begin,
                end - begin);
    return values;
  }

 private:
  std::string file_;
  std::uint64_t header_bytes_ = 0;
  nlohmann::json header_;
};

TEST_F(Mxfp4Golden, encodes_to_the_same_bytes) {
  const auto values = tensor<float>("w");
  std::vector<std::uint8_t> packed(values.size() / 2);
  std::vector<std::uint8_t> scale(values.size() / kMxfp4GroupSize);
  ASSERT_FALSE(values.empty());
  mxfp4_encode(values, packed, scale);
  EXPECT_EQ(packed, tensor<std::uint8_t>("packed"));
  EXPECT_EQ(scale, tensor<std::uint8_t>("scale"));
}

TEST_F(Mxfp4Golden, decodes_to_the_same_bits) {
  const auto expected = tensor<float>("value");
  std::vector<float> values(expected.size());
  ASSERT_FALSE(values.empty());
  mxfp4_decode(tensor<std::uint8_t>("packed"), tensor<std::uint8_t>("scale"), values);
  EXPECT_EQ(std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)), 0);
}

std::vector<float> decode_group(std::uint8_t scale, const std::vector<std::uint8_t>& packed) {
  std::vector<float> values(kMxfp4GroupSize);
  mxfp4_decode(packed, std::vector<std::uint8_t>{scale}, values);
  return values;
}

TEST(Mxfp4Test, a_scale_byte_is_a_power_of_two) {
  for (int byte = 0; byte < 255; ++byte) {
    EXPECT_EQ(e8m0_to_float(static_cast<std::uint8_t>(byte)), std::ldexp(1.0f, byte - 127)) << byte;
  }
  EXPECT_TRUE(std::isnan(e8m0_to_float(kMxfp4NanScale)));
}

TEST(Mxfp4Test, the_low_nibble_is_the_even_column) {
  std::vector<std::uint8_t> packed(16, 0);
  packed[0] = 0x72;   // codes 2, 7
  packed[15] = 0xf1;  // codes 1, 15
  const std::vector<float> values = decode_group(128, packed);
  EXPECT_EQ(values[0], 2.0f);
  EXPECT_EQ(values[1], 12.0f);
  EXPECT_EQ(values[30], 1.0f);
  EXPECT_EQ(values[31], -12.0f);
}

struct Encoded {
  std::vector<std::uint8_t> packed = std::vector<std::uint8_t>(16);
  std::uint8_t scale = 0;
};

Encoded encode_group(const std::vector<float>& group) {
  Encoded out;
  mxfp4_encode(group, out.packed, {&out.scale, 1});
  return out;
}

TEST(Mxfp4Test, a_group_of_zeros_keeps_its_signs_and_gets_scale_byte_zero) {
  std::vector<float> group(kMxfp4GroupSize, 0.0f);
  group[1] = -0.0f;
  const Encoded out = encode_group(group);
  EXPECT_EQ(out.scale, 0);
  EXPECT_EQ(out.packed[0], 0x80);
  EXPECT_TRUE(std::signbit(decode_group(out.scale, out.packed)[1]));
}

// Values on the grid whose largest code is 4 or 6 come back byte for byte (spec 7.3).
TEST(Mxfp4Test, decoded_groups_encode_to_themselves_at_every_scale) {
  for (int byte = 2; byte <= 252; ++byte) {
    Encoded in;
    for (std::size_t i = 0; i < 16; ++i) {
      in.packed[i] = static_cast<std::uint8_t>(i | ((15 - i) << 4));
    }
    in.scale = static_cast<std::uint8_t>(byte);
    const Encoded out = encode_group(decode_group(in.scale, in.packed));
    EXPECT_EQ(out.scale, in.scale);
    EXPECT_EQ(out.packed, in.packed);
  }
}

TEST(Mxfp4Test, values_round_to_nearest_with_ties_to_the_even_code) {
  // With a 6 in the group the scale is 1.
  const std::vector<std::pair<float, int>> cases = {{0.25f, 0}, {0.75f, 2}, {1.25f, 2}, {1.75f, 4},
                                                    {2.5f, 4},  {3.5f, 6},  {5.0f, 6},  {0.26f, 1},
                                                    {0.74f, 1}, {4.99f, 6}, {5.01f, 7}, {7.9f, 7}};
  for (const auto& [value, code] : cases) {
    std::vector<float> group(kMxfp4GroupSize, 6.0f);
    group[0] = value;
    group[1] = -value;
    const Encoded out = encode_group(group);
    EXPECT_EQ(out.scale, 127);
    EXPECT_EQ(out.packed[0], code | ((code | 8) << 4)) << value;
  }
}

TEST(Mxfp4Test, sizes_that_do_not_agree_are_a_programmer_error) {
  std::vector<float> values(32);
  const std::vector<std::uint8_t> packed(15);
  const std::vector<std::uint8_t> scale(1);
  EXPECT_DEATH(mxfp4_decode(packed, scale, values), "32 values, 15 packed bytes, 1 scales");
}

}  // namespace
}  // namespace tandem
