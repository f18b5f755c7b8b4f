// The names of the ids above the byte-pair ranks.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace tandem {

// One entry of `added_tokens_decoder`.
struct SpecialToken {
  TokenId id = 0;
  std::string name;
  // True: a control token, left out of text shown to a user. False: kept as text.
  bool is_special = true;
};

// Reads `added_tokens_decoder` of a tokenizer_config.json.
Result<std::vector<SpecialToken>> read_special_tokens(const std::filesystem::path& file);

// The ids first .. vocab_size-1 with their names; ids that no entry names are called
// `<|reserved_token_{id}|>` and count as special. Immutable and thread-safe after creation.
class SpecialTokenTable {
 public:
  // Refuses ids outside the window, an id or a name given twice, empty names.
  static Result<SpecialTokenTable> create(const std::vector<SpecialToken>& tokens, TokenId first,
                                          TokenId vocab_size);

  TokenId first() const { return first_; }
  TokenId end() const { return first_ + static_cast<TokenId>(tokens_.size()); }
  // `id` must be in first() .. end()-1.
  const SpecialToken& at(TokenId id) const {
    return tokens_[static_cast<std::size_t>(id - first_)];
  }
  std::optional<TokenId> find(std::string_view name) const;

  struct Match {
    std::size_t position;
    TokenId id;
  };
  // The first name spelt out in `text`, the longest where several begin.
  std::optional<Match> find_in(std::string_view text) const;

 private:
  TokenId first_ = 0;
  std::vector<SpecialToken> tokens_;
  std::map<std::string, TokenId, std::less<>> by_name_;
  std::vector<std::size_t> lengths_;  // distinct name lengths in bytes, longest first
  std::string first_bytes_;           // distinct first bytes of names
};

}  // namespace tandem
