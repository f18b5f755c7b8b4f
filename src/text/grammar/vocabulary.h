// The tokens of a vocabulary in the order of a prefix tree.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "text/tokenizer.h"

namespace tandem {

// How a special token is spelt in rules: bytes that no text contains, so that only a rule which
// names the token can let it pass.
std::string marker_bytes(TokenId id);

// What a grammar needs to know of a tokenizer: the bytes of the tokens that may appear inside
// constrained text, and the ids that end it. Special tokens are no text: they appear where a rule
// has their marker_bytes() only. Immutable and thread-safe; made once per tokenizer.
class GrammarVocabulary {
 public:
  // Preorder: a node's subtree is the nodes up to `skip`, and the tokens in it are adjacent.
  struct Node {
    std::int32_t skip;         // the node after the subtree
    std::int32_t first_token;  // rank of the first token in the subtree
    std::int32_t
        inner_token;      // rank of the first token in the subtree that is longer than the node
    std::uint16_t depth;  // bytes from the root, >= 1
    std::uint8_t byte;
  };

  // Copies what it needs. Stop ids that the tokenizer does not have are left out; tokens with a
  // byte that UTF-8 never has are no text.
  static std::shared_ptr<const GrammarVocabulary> create(const Tokenizer& tokenizer,
                                                         std::span<const TokenId> stop_ids);
  // From the bytes of each id, empty for ids that are not text; tokens have < 65,536 bytes. Stop
  // ids must lie in the vocabulary.
  static std::shared_ptr<const GrammarVocabulary> create(
      std::span<const std::string_view> bytes_of_id, std::span<const TokenId> stop_ids);

  // Number of ids, the special ones included.
  std::size_t size() const { return size_; }
  // The bytes of a token that is text; empty for every other id.
  std::string_view bytes(TokenId id) const;
  std::span<const TokenId> stop_ids() const { return stop_ids_; }
  bool is_stop(TokenId id) const;

  std::span<const Node> nodes() const { return nodes_; }
  // Tokens by rank, which is the order of their bytes.
  std::span<const TokenId> tokens() const { return tokens_; }
  // Bytes that the token of this rank has in common with the one before it.
  std::uint16_t shared_bytes(std::size_t rank) const { return shared_[rank]; }
  std::size_t longest_token() const { return longest_; }

 private:
  void index();

  std::size_t size_ = 0;
  std::size_t longest_ = 0;
  std::string pool_;
  std::vector<std::uint32_t> offsets_;  // [size + 1] into pool_
  std::vector<TokenId> stop_ids_;
  std::vector<TokenId> tokens_;
  std::vector<std::uint16_t> shared_;
  std::vector<Node> nodes_;
};

}  // namespace tandem
