// A shadow of the arena for tests: plain lists beside the real thing, and a buffer whose contents
// are carried through every move.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <vector>

#include "memory/arena.h"

namespace tandem::testing {

// What a caller can do to an arena. `a` and `b` choose among what is there, modulo its number.
struct Operation {
  enum Kind : std::uint8_t {
    kWork,       // allocate a working state
    kPing,       // allocate a snapshot
    kPages,      // allocate 1 + a % 8 pages at once
    kFreeState,  // give state a back
    kFreePages,  // give 1 + b % 8 pages back, from page a on
    kDonate,     // give state a to the tree
    kAdvance,    // overwrite state a in the coming step
    kPin,        // read entry a on another stream
    kUnpin,      // that reader is done
    kFencedPin,  // read entry a until a fence some steps ahead
    kPass,       // the next fence passes
    kPublish,    // execute the planned moves, then write what is new
    kCompact,    // close all holes
    kExchange,   // free some of both kinds, then allocate some of both kinds
    kKinds,
  };
  Kind kind = kPublish;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
};
std::ostream& operator<<(std::ostream& stream, const Operation& operation);

// A disagreement between the arena and its shadow.
template <typename... Args>
Result<void> wrong(fmt::format_string<Args...> format, Args&&... args) {
  return fail(StatusCode::kInternal, format, std::forward<Args>(args)...);
}

// Applies operations to an arena and to the shadow. Each method returns kInternal with what
// disagreed. Shares no code with the arena but the handles; sizes are recomputed from the layout
// that arena_geometry.h states.
class ArenaShadow {
 public:
  explicit ArenaShadow(const ArenaGeometry& geometry);

  Result<void> apply(const Operation& operation);
  // Publishes, then compares everything: places, contents, owners, bytes, the arena's own check.
  Result<void> check();
  // Gives everything back and checks that nothing is left.
  Result<void> finish();

  const Arena& arena() const { return *arena_; }

 private:
  // An entry with an owner.
  template <EntryKind K>
  struct Owned {
    EntryHandle<K> handle;
    std::uint64_t serial = 0;   // of this entry among all ever
    std::uint64_t content = 0;  // what its bytes are made from
    bool is_fresh = true;       // to be written by the next publish
    StateOwner owner = StateOwner::kNobody;
  };
  // A reader on another stream, and the bytes that it must find.
  struct Reader {
    ReaderPin pin;  // empty: the arena keeps it until `fence`
    std::uint64_t fence = 0;
    EntryKind kind = EntryKind::kState;
    std::uint64_t serial = 0;
    std::uint64_t content = 0;
    std::int64_t offset = 0;
  };

  template <EntryKind K>
  std::vector<Owned<K>>& owned() {
    if constexpr (K == EntryKind::kState) {
      return states_;
    } else {
      return pages_;
    }
  }
  template <EntryKind K>
  Result<void> adopt(EntryHandle<K> handle, StateOwner owner);
  template <EntryKind K>
  void give_back(std::size_t index);
  template <EntryKind K>
  bool has_reader(const Owned<K>& entry) const;

  Result<void> allocate_state(StateOwner owner, std::uint32_t a);
  Result<void> allocate_pages(std::size_t count);
  Result<void> exchange(std::uint32_t a, std::uint32_t b);
  void free_pages(std::uint32_t a, std::uint32_t b);
  void donate(std::uint32_t a);
  void advance(std::uint32_t a);
  Result<void> add_reader(std::uint32_t a, std::optional<std::uint64_t> fence);
  Result<void> drop_reader(std::size_t index);
  Result<void> pass();
  Result<void> publish();
  Result<void> compact();

  // Whether `need` fits after compaction around what is pinned, by the lists.
  bool fits(EntryCounts need, EntryCounts freed) const;
  EntryCounts counts() const;
  std::int64_t position_end(EntryKind kind, std::int64_t offset) const;
  std::int64_t free_bytes() const;

  template <EntryKind K>
  void write_fresh();
  Result<void> execute(const Move& move);
  void write(std::int64_t offset, std::int64_t bytes, std::uint64_t content);
  bool holds(std::int64_t offset, std::int64_t bytes, std::uint64_t content) const;
  template <EntryKind K>
  Result<void> check_contents();
  Result<void> check_places();
  Result<void> check_usage() const;

  const ArenaGeometry geometry_;
  std::unique_ptr<Arena> arena_;
  std::vector<std::uint64_t> cells_;  // the buffer, one value for 64 bytes
  std::vector<Owned<EntryKind::kState>> states_;
  std::vector<Owned<EntryKind::kPage>> pages_;
  std::vector<Reader> readers_;
  std::map<std::uint64_t, EntryKind> given_up_;            // serials without owner, with readers
  std::map<std::uint32_t, std::uint32_t> generations_[2];  // last seen, by name
  std::vector<Move> moves_;
  std::uint64_t next_serial_ = 1;
  std::uint64_t fence_ = 0;  // the last one that passed
  std::int64_t freed_bytes_ = 0;
  std::int64_t moved_bytes_ = 0;
};

}  // namespace tandem::testing
