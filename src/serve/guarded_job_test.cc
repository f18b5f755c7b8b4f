#include "serve/guarded_job.h"

#include <gtest/gtest.h>

#include "serve/fake_exchange.h"
#include "serve/openai_error.h"

namespace tandem {
namespace {

TEST(GuardedJobTest, a_job_that_finds_no_memory_answers_its_client) {
  const auto exchange = std::make_shared<FakeExchange>();
  guarded_job(&openai_error_format, exchange, [] { throw std::bad_alloc(); })();
  ASSERT_TRUE(exchange->response);
  EXPECT_EQ(exchange->response->status, 503);
}

TEST(GuardedJobTest, a_job_that_ends_leaves_the_answer_to_itself) {
  const auto exchange = std::make_shared<FakeExchange>();
  bool ran = false;
  guarded_job(&openai_error_format, exchange, [&ran] { ran = true; })();
  EXPECT_TRUE(ran);
  EXPECT_FALSE(exchange->response);
}

}  // namespace
}  // namespace tandem
