#include "serve/request_registry.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(RequestRegistry, a_name_is_taken_until_its_lease_dies) {
  RequestRegistry registry;
  {
    const auto lease = registry.add("a", "rid").value();
    const auto again = registry.add("a", "rid");
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().field, "rid");
    EXPECT_TRUE(registry.add("b", "rid"));
  }
  EXPECT_TRUE(registry.add("a", "rid"));
}

TEST(RequestRegistry, aborts_by_prefix_and_all_by_none) {
  RequestRegistry registry;
  std::string cancelled;
  const auto one = registry.add("x_1", "rid").value();
  const auto two = registry.add("x_2", "rid").value();
  const auto other = registry.add("y", "rid").value();
  one.on_abort([&] { cancelled += "1"; });
  two.on_abort([&] { cancelled += "2"; });
  other.on_abort([&] { cancelled += "y"; });
  EXPECT_EQ(registry.abort("x_2"), 1);
  EXPECT_EQ(cancelled, "2");
  EXPECT_EQ(registry.abort("x"), 2);
  EXPECT_EQ(cancelled, "212");
  EXPECT_EQ(registry.abort("z"), 0);
  EXPECT_EQ(registry.abort(""), 3);
}

TEST(RequestRegistry, an_abort_before_the_work_is_known_reaches_it) {
  RequestRegistry registry;
  const auto lease = registry.add("a", "rid").value();
  EXPECT_EQ(registry.abort("a"), 1);
  bool cancelled = false;
  lease.on_abort([&] { cancelled = true; });
  EXPECT_TRUE(cancelled);
}

}  // namespace
}  // namespace tandem
