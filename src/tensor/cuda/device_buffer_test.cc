#include "tensor/cuda/device_buffer.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tandem {
namespace {

TEST(device_buffer, bytes_come_back_as_they_were_sent) {
  const auto stream = CudaStream::create();
  ASSERT_TRUE(stream);
  const auto device = DeviceBuffer::create(1000);
  const auto host = PinnedBuffer::create(1000);
  ASSERT_TRUE(device && host);
  for (std::size_t i = 0; i < 1000; ++i) host->bytes()[i] = static_cast<std::byte>(i * 7);
  ASSERT_TRUE(copy_to_device(*stream, device->data(), host->bytes()));
  ASSERT_TRUE(fill_device(*stream, device->data() + 10, std::byte{9}, 1));
  std::vector<std::byte> back(1000);
  ASSERT_TRUE(copy_to_host(*stream, back, device->data()));
  ASSERT_TRUE(stream->wait());
  host->bytes()[10] = std::byte{9};
  EXPECT_EQ(std::memcmp(back.data(), host->bytes().data(), 1000), 0);
}

TEST(device_buffer, more_than_the_device_has_is_an_error_and_the_device_goes_on) {
  const auto huge = DeviceBuffer::create(std::size_t{1} << 50);
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, StatusCode::kResourceExhausted);
  EXPECT_TRUE(DeviceBuffer::create(16));
}

TEST(cuda_graph, a_replay_repeats_what_was_captured_and_a_capture_runs_nothing) {
  const auto stream = CudaStream::create();
  const auto device = DeviceBuffer::create(4);
  ASSERT_TRUE(stream && device);
  ASSERT_TRUE(fill_device(*stream, device->data(), std::byte{1}, 4));
  const auto graph = CudaGraph::capture(*stream, [&](const CudaStream& captured) {
    return fill_device(captured, device->data(), std::byte{2}, 4);
  });
  ASSERT_TRUE(graph) << graph.error().message;
  const auto first_byte = [&] {
    std::byte value{};
    EXPECT_TRUE(copy_to_host(*stream, {&value, 1}, device->data()));
    EXPECT_TRUE(stream->wait());
    return value;
  };
  EXPECT_EQ(first_byte(), std::byte{1});
  ASSERT_TRUE(graph->replay(*stream));
  EXPECT_EQ(first_byte(), std::byte{2});
}

}  // namespace
}  // namespace tandem
