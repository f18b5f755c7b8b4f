// Between the engine and a response format: puts what the loop thread reports in order.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/answer_sink.h"
#include "serve/answer_writer.h"
#include "serve/held_output.h"
#include "serve/http.h"
#include "serve/request_registry.h"

namespace tandem {

// Belongs to the network thread; owned by a shared_ptr. What comes before begin() waits for it;
// what comes after the answer was completed, has failed or was refused is dropped. While the client
// is behind, output is held back up to a bound.
class RunningAnswer : public std::enable_shared_from_this<RunningAnswer> {
 public:
  RunningAnswer(std::shared_ptr<HttpExchange> exchange, std::unique_ptr<AnswerWriter> writer,
                int choices, RequestRegistry::Lease lease = {});

  // The engine has taken every choice. `cancel` ends all of its work for this answer, from any
  // thread; it is called if the client leaves, a choice fails, or the request is aborted by name.
  void begin(std::function<void()> cancel);
  // The engine has refused a choice.
  void refuse(HttpResponse response);

  void on_events(int choice, std::vector<OutputEvent> events, std::optional<SampledToken> token);
  void on_end(int choice, const AnswerResult& result);

 private:
  enum class State { kWaiting, kAnswering, kDone };

  // Tells the writer what was held back.
  void release();
  void end();

  const std::shared_ptr<HttpExchange> exchange_;
  const std::unique_ptr<AnswerWriter> writer_;
  State state_ = State::kWaiting;
  std::vector<std::function<void()>> early_;  // calls that came before begin()
  std::function<void()> cancel_;
  int open_choices_;
  HeldOutput held_;
  RequestRegistry::Lease lease_;  // free before the client can know that the answer is complete
};

}  // namespace tandem
