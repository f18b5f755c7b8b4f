#include "serve/running_answer.h"

#include <utility>

namespace tandem {
namespace {

constexpr std::size_t kMaxHeldBytes = 64 << 10;

}  // namespace

RunningAnswer::RunningAnswer(std::shared_ptr<HttpExchange> exchange,
                             std::unique_ptr<AnswerWriter> writer, int choices,
                             RequestRegistry::Lease lease)
    : exchange_(std::move(exchange)),
      writer_(std::move(writer)),
      open_choices_(choices),
      held_(choices),
      lease_(std::move(lease)) {}

void RunningAnswer::begin(std::function<void()> cancel) {
  cancel_ = std::move(cancel);
  state_ = State::kAnswering;
  lease_.on_abort(cancel_);
  exchange_->on_gone(cancel_);
  exchange_->on_caught_up([self = weak_from_this()] {
    if (const auto answer = self.lock()) answer->release();
  });
  writer_->begin();
  for (const auto& call : std::exchange(early_, {})) call();
}

void RunningAnswer::refuse(HttpResponse response) {
  end();
  early_.clear();
  exchange_->respond(std::move(response));
}

void RunningAnswer::on_events(int choice, std::vector<OutputEvent> events,
                              std::optional<SampledToken> token) {
  if (state_ == State::kWaiting) {
    early_.push_back([this, choice, events = std::move(events), token = std::move(token)] {
      on_events(choice, events, token);
    });
    return;
  }
  if (state_ == State::kDone) return;
  if (!exchange_->is_behind()) {
    return writer_->on_events(choice, events,
                              token ? std::span(&*token, 1) : std::span<const SampledToken>());
  }
  held_.add(choice, std::move(events), std::move(token));
  // The exchange bounds what a client may leave unread, so there it must go in the end.
  if (held_.bytes() > kMaxHeldBytes) release();
}

void RunningAnswer::release() {
  for (const HeldOutput::Piece& piece : held_.take()) {
    writer_->on_events(piece.choice, piece.events, piece.tokens);
  }
}

void RunningAnswer::on_end(int choice, const AnswerResult& result) {
  if (state_ == State::kWaiting) {
    early_.push_back([this, choice, result] { on_end(choice, result); });
    return;
  }
  if (state_ == State::kDone) return;
  release();
  if (result.result.reason == FinishReason::kError) {
    end();
    cancel_();
    return writer_->fail(result.result.status);
  }
  writer_->on_end(choice, result);
  if (--open_choices_ > 0) return;
  end();
  writer_->complete();
}

void RunningAnswer::end() {
  state_ = State::kDone;
  lease_ = {};
}

}  // namespace tandem
