#include "engine/system_memory.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_folder.h"

namespace tandem {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

class SystemMemoryTest : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    const auto path = root_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void write_meminfo() {
    write("proc/meminfo",
          "MemTotal:        1048576 kB\nMemFree:          100 kB\nMemAvailable:     524288 kB\n");
  }
  SystemMemory read() {
    const auto memory = read_system_memory(root_.path());
    EXPECT_TRUE(memory) << memory.error().message;
    return memory.value_or(SystemMemory{});
  }

  TempFolder root_;
};

TEST_F(SystemMemoryTest, without_a_limit_it_is_the_machine) {
  write_meminfo();
  write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(read().total_bytes, 1024 * kMiB);
  EXPECT_EQ(read().available_bytes, 512 * kMiB);
}

TEST_F(SystemMemoryTest, a_container_has_what_its_limit_leaves_beside_cached_files) {
  write_meminfo();
  write("sys/fs/cgroup/memory.max", std::to_string(256 * kMiB));
  write("sys/fs/cgroup/memory.current", std::to_string(100 * kMiB));
  write("sys/fs/cgroup/memory.stat", "anon 1\nfile " + std::to_string(60 * kMiB) + "\n");
  EXPECT_EQ(read().total_bytes, 256 * kMiB);
  EXPECT_EQ(read().available_bytes, 216 * kMiB);
}

TEST_F(SystemMemoryTest, the_older_control_groups_count_as_well) {
  write_meminfo();
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(64 * kMiB));
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(70 * kMiB));
  EXPECT_EQ(read().total_bytes, 64 * kMiB);
  EXPECT_EQ(read().available_bytes, 0);
}

TEST_F(SystemMemoryTest, a_limit_above_the_machine_changes_nothing) {
  write_meminfo();
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000");
  EXPECT_EQ(read().total_bytes, 1024 * kMiB);
  EXPECT_EQ(read().available_bytes, 512 * kMiB);
}

TEST_F(SystemMemoryTest, silence_is_an_error_that_names_the_file) {
  write("proc/meminfo", "MemTotal: 5 kB\n");
  const auto memory = read_system_memory(root_.path());
  ASSERT_FALSE(memory);
  EXPECT_NE(memory.error().message.find("proc/meminfo"), std::string::npos);
}

TEST(ThisMachineTest, has_memory_available) {
  const auto memory = read_system_memory();
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_GT(memory->available_bytes, 0);
  EXPECT_LE(memory->available_bytes, memory->total_bytes);
}

}  // namespace
}  // namespace tandem
