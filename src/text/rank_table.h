// The byte-pair ranks of a tiktoken file: token bytes <-> rank, and the merge rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace tandem {

// Working memory of RankTable::encode, reused between calls. Single owner.
struct MergeScratch {
  std::vector<std::uint32_t> next, previous;  // [bytes + 1] linked list of parts
  std::vector<TokenId> pair_rank;             // [bytes] rank of a part joined to the next one
  std::vector<std::uint64_t> heap;            // rank << 32 | position, smallest on top
};

// Immutable and thread-safe after loading. A token's id is its rank, 0 .. size()-1, without holes.
class RankTable {
 public:
  static constexpr TokenId kNone = -1;

  // Reads lines of `base64(bytes) SP rank`. Refuses malformed lines, holes, duplicates, and a table
  // that lacks a single-byte token, naming the file and the line.
  static Result<RankTable> load(const std::filesystem::path& file);
  // The same from memory; `name` stands for the file in errors.
  static Result<RankTable> parse(std::string_view content, std::string_view name);

  std::size_t size() const { return offsets_.size() - 1; }
  // The bytes of token `id`, which must be < size(). Valid as long as the table.
  std::string_view bytes(TokenId id) const;
  // The id whose bytes are `bytes`, or kNone.
  TokenId find(std::string_view bytes) const;

  // Appends the ids of one pre-token: its own id if it is in the table, else repeatedly the
  // adjacent pair with the lowest rank (leftmost of equals) is joined. O(n log n).
  void encode(std::string_view word, MergeScratch* scratch, std::vector<TokenId>* out) const;

 private:
  Result<void> index(std::string_view name);

  std::string pool_;                    // the bytes of all tokens, in rank order
  std::vector<std::uint32_t> offsets_;  // [size + 1] into pool_
  std::vector<TokenId> slots_;          // open addressing, a power of two, kNone where free
  std::size_t longest_ = 0;             // bytes of the longest token
};

}  // namespace tandem
