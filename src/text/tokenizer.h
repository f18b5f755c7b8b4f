// Text <-> token ids with the Kimi tokenizer (K2, Kimi Linear, K3): rank byte pairs and special
// names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "text/pre_tokenizer.h"
#include "text/rank_table.h"
#include "text/special_tokens.h"

namespace tandem {

// Whether tokens flagged special appear in decoded text.
enum class SpecialText { kKeep, kSkip };

// Ids 0 .. rank_count()-1 are byte pairs, rank_count() .. vocab_size()-1 special names.
// Immutable after creation: every method is thread-safe.
class Tokenizer {
 public:
  // Reads `tiktoken.model` and the `added_tokens_decoder` of `tokenizer_config.json` in `folder`.
  static Result<std::unique_ptr<Tokenizer>> load(const std::filesystem::path& folder,
                                                 std::int64_t vocab_size);
  // From a rank table and a special-token table. Ids that `specials` leaves out become
  // `<|reserved_token_{id}|>`.
  static Result<std::unique_ptr<Tokenizer>> create(RankTable ranks,
                                                   const std::vector<SpecialToken>& specials,
                                                   std::int64_t vocab_size);

  // Both encoders read invalid UTF-8 as U+FFFD (utf8.h) and add no BOS. The ids of a concatenation
  // are in general not the concatenated ids.
  //
  // Plain: no special name is recognised, so text of a user can never become a control token.
  std::vector<TokenId> encode_plain(std::string_view text) const;
  // Markup: special names spelt out in the text become their ids.
  std::vector<TokenId> encode_markup(std::string_view text) const;

  // The bytes of a token, the name of a special one; empty if `id` is not in the vocabulary. Not
  // necessarily whole characters. Valid as long as the tokenizer.
  std::string_view token_bytes(TokenId id) const;
  // The text of `ids`: their bytes joined, invalid UTF-8 as U+FFFD.
  std::string decode(std::span<const TokenId> ids, SpecialText special = SpecialText::kKeep) const;

  bool contains(TokenId id) const { return id >= 0 && id < vocab_size(); }
  // True for a special name flagged special: left out of text shown to a user.
  bool is_special(TokenId id) const;
  // The id of a special name such as "<|open|>".
  std::optional<TokenId> id_of(std::string_view special_name) const {
    return specials_.find(special_name);
  }

  TokenId vocab_size() const { return specials_.end(); }
  TokenId rank_count() const { return specials_.first(); }

 private:
  enum class Mode { kPlain, kMarkup };
  struct Scratch;

  Tokenizer(RankTable ranks, SpecialTokenTable specials)
      : ranks_(std::move(ranks)), specials_(std::move(specials)) {}
  std::vector<TokenId> encode(std::string_view text, Mode mode) const;
  void encode_chunk(std::string_view chunk, Mode mode, Scratch* scratch,
                    std::vector<TokenId>* out) const;
  void encode_words(std::string_view text, Scratch* scratch, std::vector<TokenId>* out) const;

  RankTable ranks_;
  SpecialTokenTable specials_;
  PreTokenizer pre_tokenizer_;
};

}  // namespace tandem
