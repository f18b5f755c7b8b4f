// Any bytes may be the body of a chat request. What is accepted keeps within its limits; what is
// refused says why, shortly.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "serve/openai_request.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto request = parse_chat_completion(body, {});
  if (!request) {
    const Status& status = request.error();
    CHECK(status.code == StatusCode::kInvalidArgument, "code {}", to_string(status.code));
    CHECK(!status.message.empty() && status.message.size() < 1000, "{} bytes",
          status.message.size());
    CHECK(status.message.starts_with(status.field), "{} / {}", status.field, status.message);
    return 0;
  }
  const auto sampling = check_sampling_params(request->sampling, std::int64_t{1} << 31);
  CHECK(sampling, "{}", sampling.error().message);
  CHECK(!request->chat.messages.empty(), "no messages");
  CHECK(request->choices >= 1 && request->choices <= 128, "{} choices", request->choices);
  CHECK(request->max_tokens == -1 || request->max_tokens >= 1, "max_tokens {}",
        request->max_tokens);
  CHECK(request->stop.size() <= 64, "{} stop strings", request->stop.size());
  for (const std::string& stop : request->stop) CHECK(!stop.empty(), "an empty stop string");
  CHECK(request->stream || !request->include_usage, "usage without a stream");
  return 0;
}
