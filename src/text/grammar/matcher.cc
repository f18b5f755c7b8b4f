#include "text/grammar/matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem {

using grammar::kDead;
using grammar::SetId;

namespace {

// Sets are kept because they come again and again inside a string or a number; about 1 KB each.
constexpr std::size_t kMaxSets = 4096;

}  // namespace

GrammarMatcher::GrammarMatcher(Grammar::Pointer grammar)
    : grammar_(std::move(grammar)), machine_(grammar_->pushdown()), current_(machine_.start()) {}

GrammarMatcher::GrammarMatcher(const GrammarMatcher& other)
    : grammar_(other.grammar_),
      machine_(grammar_->pushdown()),
      current_(other.current_),
      history_(other.history_),
      finished_(other.finished_) {
  history_.push_back(current_);
  machine_ = other.machine_.compacted(history_);
  current_ = history_.back();
  history_.pop_back();
}

GrammarMatcher& GrammarMatcher::operator=(const GrammarMatcher& other) {
  if (this != &other) *this = GrammarMatcher(other);
  return *this;
}

bool GrammarMatcher::accept(TokenId token) {
  if (finished_) return false;
  const bool stops = grammar_->vocabulary().is_stop(token);
  const std::string_view bytes = grammar_->vocabulary().bytes(token);
  if (stops ? !can_stop() : bytes.empty()) return false;
  const SetId next = stops ? current_ : machine_.run(current_, bytes);
  if (next == kDead) return false;
  if (history_.size() == kMaxRollback) history_.erase(history_.begin());
  history_.push_back(current_);
  current_ = next;
  finished_ = stops;
  forget_unused_sets();
  return true;
}

void GrammarMatcher::rollback(std::size_t tokens) {
  CHECK(tokens <= history_.size(), "{} tokens of {}", tokens, history_.size());
  if (tokens == 0) return;
  history_.resize(history_.size() - tokens + 1);
  current_ = history_.back();
  history_.pop_back();
  finished_ = false;
}

void GrammarMatcher::fill_mask(std::span<std::uint64_t> mask) {
  CHECK(mask.size() == mask_words(), "{} words", mask.size());
  std::fill(mask.begin(), mask.end(), 0);
  if (finished_) return;
  std::vector<grammar::StateId> states;
  for (const auto& config : machine_.configs(current_)) {
    if (states.empty() || states.back() != config.state) states.push_back(config.state);
  }
  for (const grammar::StateId id : states) {
    const auto state = grammar_->state_mask(id);
    state->add_to(mask);
    add_open_tokens(*state, mask);
  }
  if (can_stop()) {
    for (const TokenId id : grammar_->vocabulary().stop_ids()) grammar::set_bit(mask, id);
  }
  forget_unused_sets();
}

bool GrammarMatcher::mask_is_known() const {
  const auto configs = machine_.configs(current_);
  return finished_ || std::all_of(configs.begin(), configs.end(), [&](const auto& config) {
           return grammar_->has_state_mask(config.state);
         });
}

void GrammarMatcher::add_open_tokens(const grammar::StateMask& state,
                                     std::span<std::uint64_t> mask) {
  const GrammarVocabulary& vocabulary = grammar_->vocabulary();
  // path_[d] is the set after d bytes of the last token, up to where it was refused.
  path_.assign(1, current_);
  for (const auto& open : state.open) {
    if (open.shared >= path_.size()) continue;  // begins with bytes that were refused
    path_.resize(open.shared + std::size_t{1});
    const TokenId id = vocabulary.tokens()[static_cast<std::size_t>(open.rank)];
    const std::string_view bytes = vocabulary.bytes(id);
    for (std::size_t i = open.shared; i < bytes.size(); ++i) {
      const SetId next = machine_.step(path_.back(), static_cast<std::uint8_t>(bytes[i]));
      if (next == kDead) break;
      path_.push_back(next);
    }
    if (path_.size() == bytes.size() + 1) grammar::set_bit(mask, id);
  }
}

void GrammarMatcher::forget_unused_sets() {
  if (machine_.set_count() <= kMaxSets) return;
  history_.push_back(current_);
  machine_ = machine_.compacted(history_);
  current_ = history_.back();
  history_.pop_back();
}

std::string GrammarMatcher::forced(std::size_t max_bytes) {
  std::string out;
  for (SetId set = current_; !finished_ && out.size() < max_bytes && !machine_.at_end(set);) {
    int next = -1;
    for (const auto& config : machine_.configs(set)) {
      for (const auto& edge : grammar_->pushdown().edges(config.state)) {
        const bool agrees =
            edge.bytes.first == edge.bytes.last && (next < 0 || next == edge.bytes.first);
        if (!agrees) return out;
        next = edge.bytes.first;
      }
    }
    out.push_back(static_cast<char>(next));
    set = machine_.step(set, static_cast<std::uint8_t>(next));
  }
  return out;
}

}  // namespace tandem
