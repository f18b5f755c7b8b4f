#include "text/grammar/vocabulary.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace tandem {

namespace {

constexpr char kMarker = '\xFF';  // in no UTF-8 text

}  // namespace

std::string marker_bytes(TokenId id) {
  return {kMarker, static_cast<char>(id >> 16), static_cast<char>(id >> 8), static_cast<char>(id)};
}

std::shared_ptr<const GrammarVocabulary> GrammarVocabulary::create(
    const Tokenizer& tokenizer, std::span<const TokenId> stop_ids) {
  const auto size = static_cast<std::size_t>(tokenizer.vocab_size());
  std::vector<std::string_view> bytes(size);
  std::vector<std::string> markers(size);
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const auto at = static_cast<std::size_t>(id);
    if (id < tokenizer.rank_count()) {
      const std::string_view text = tokenizer.token_bytes(id);
      if (text.find(kMarker) == std::string_view::npos) bytes[at] = text;
    } else {
      markers[at] = marker_bytes(id);
      bytes[at] = markers[at];
    }
  }
  std::vector<TokenId> stops;
  std::copy_if(stop_ids.begin(), stop_ids.end(), std::back_inserter(stops),
               [&](TokenId id) { return tokenizer.contains(id); });
  return create(bytes, stops);
}

std::shared_ptr<const GrammarVocabulary> GrammarVocabulary::create(
    std::span<const std::string_view> bytes_of_id, std::span<const TokenId> stop_ids) {
  auto out = std::make_shared<GrammarVocabulary>();
  out->size_ = bytes_of_id.size();
  out->offsets_.push_back(0);
  for (const std::string_view bytes : bytes_of_id) {
    CHECK(bytes.size() < 65536, "a token of {} bytes", bytes.size());
    out->pool_ += bytes;
    out->offsets_.push_back(static_cast<std::uint32_t>(out->pool_.size()));
    out->longest_ = std::max(out->longest_, bytes.size());
  }
  for (const TokenId id : stop_ids) {
    CHECK(id >= 0 && static_cast<std::size_t>(id) < out->size_, "stop id {} of {}", id, out->size_);
    out->stop_ids_.push_back(id);
  }
  out->index();
  return out;
}

std::string_view GrammarVocabulary::bytes(TokenId id) const {
  const auto at = static_cast<std::size_t>(id);
  if (id < 0 || at >= size_) return {};
  return std::string_view(pool_).substr(offsets_[at], offsets_[at + 1] - offsets_[at]);
}

bool GrammarVocabulary::is_stop(TokenId id) const {
  return std::find(stop_ids_.begin(), stop_ids_.end(), id) != stop_ids_.end();
}

void GrammarVocabulary::index() {
  for (std::size_t i = 0; i < size_; ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!bytes(id).empty() && !is_stop(id)) tokens_.push_back(id);
  }
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [&](TokenId a, TokenId b) { return bytes(a) < bytes(b); });
  std::vector<std::size_t> open;  // the nodes of the last token, by depth
  const auto close_to = [&](std::size_t depth) {
    while (open.size() > depth) {
      nodes_[open.back()].skip = static_cast<std::int32_t>(nodes_.size());
      open.pop_back();
    }
  };
  std::string_view last;
  for (std::size_t rank = 0; rank < tokens_.size(); ++rank) {
    const std::string_view text = bytes(tokens_[rank]);
    const auto differ = std::mismatch(text.begin(), text.end(), last.begin(), last.end());
    const auto shared = static_cast<std::size_t>(differ.first - text.begin());
    shared_.push_back(static_cast<std::uint16_t>(shared));
    close_to(shared);
    for (std::size_t depth = shared; depth < text.size(); ++depth) {
      open.push_back(nodes_.size());
      nodes_.push_back({.skip = 0,
                        .first_token = static_cast<std::int32_t>(rank),
                        .inner_token = static_cast<std::int32_t>(rank),
                        .depth = static_cast<std::uint16_t>(depth + 1),
                        .byte = static_cast<std::uint8_t>(text[depth])});
    }
    nodes_[open.back()].inner_token = static_cast<std::int32_t>(rank + 1);
    last = text;
  }
  close_to(0);
}

}  // namespace tandem
