#include "serve/held_output.h"

#include <iterator>
#include <utility>

namespace tandem {
namespace {

bool continues_text(const OutputEvent& event) {
  using Kind = OutputEvent::Kind;
  return event.kind == Kind::kReasoning || event.kind == Kind::kContent ||
         event.kind == Kind::kToolCallArguments;
}

bool can_join(const std::vector<OutputEvent>& held, const std::vector<OutputEvent>& events) {
  return held.size() == 1 && events.size() == 1 && continues_text(events[0]) &&
         held[0].kind == events[0].kind && held[0].call == events[0].call;
}

}  // namespace

void HeldOutput::add(int choice, std::vector<OutputEvent> events,
                     std::optional<SampledToken> token) {
  Choice& of = choices_[static_cast<std::size_t>(choice)];
  if (token) {
    bytes_ += sizeof *token + token->top.size() * sizeof(TokenLogprob);
    of.silent.push_back(*std::move(token));
  }
  if (events.empty()) return;
  for (const OutputEvent& event : events) bytes_ += event.text.size();
  if (!of.pieces.empty() && can_join(of.pieces.back().events, events)) {
    of.pieces.back().events[0].text += events[0].text;
  } else {
    bytes_ += events.size() * sizeof(OutputEvent) + sizeof(Piece);
    of.pieces.push_back({choice, std::move(events), {}});
  }
  auto& tokens = of.pieces.back().tokens;
  tokens.insert(tokens.end(), std::make_move_iterator(of.silent.begin()),
                std::make_move_iterator(of.silent.end()));
  of.silent.clear();
}

std::vector<HeldOutput::Piece> HeldOutput::take() {
  std::vector<Piece> all;
  if (bytes_ == 0) return all;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    Choice of = std::exchange(choices_[i], {});
    std::move(of.pieces.begin(), of.pieces.end(), std::back_inserter(all));
    if (!of.silent.empty()) all.push_back({static_cast<int>(i), {}, std::move(of.silent)});
  }
  bytes_ = 0;
  return all;
}

}  // namespace tandem
