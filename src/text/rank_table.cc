#include "text/rank_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <functional>
#include <optional>

#include "text/file.h"

namespace tandem {
namespace {

// A rank this far beyond the number of lines is refused at once: the table is as large as the
// largest rank, and a hostile file must not ask for much memory.
constexpr std::size_t kMaxHole = 1u << 16;

constexpr std::array<std::int8_t, 256> make_base64_values() {
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::int8_t>(i);
  }
  return values;
}

// Strict, padded base64; false if malformed or empty.
bool append_base64(std::string_view text, std::string* out) {
  static constexpr std::array<std::int8_t, 256> kValues = make_base64_values();
  if (text.empty() || text.size() % 4 != 0) return false;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const std::size_t pad = i + 4 == text.size() ? padding : 0;
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const int value = k >= 4 - pad ? 0 : kValues[static_cast<unsigned char>(text[i + k])];
      if (value < 0) return false;
      bits = bits << 6 | static_cast<std::uint32_t>(value);
    }
    for (std::size_t k = 0; k < 3 - pad; ++k) {
      out->push_back(static_cast<char>(bits >> (16 - 8 * k) & 0xFF));
    }
  }
  return true;
}

struct Line {
  std::string bytes;
  std::uint32_t rank;
};

std::optional<Line> parse_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  Line parsed;
  if (space == std::string_view::npos || !append_base64(line.substr(0, space), &parsed.bytes)) {
    return std::nullopt;
  }
  const char* end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(line.data() + space + 1, end, parsed.rank);
  if (error != std::errc() || stop != end) return std::nullopt;
  return parsed;
}

// Mixes eight bytes at a time; tokens are short.
std::uint64_t hash_bytes(std::string_view bytes) {
  constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15u;
  std::uint64_t hash = bytes.size() * kMultiplier;
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    const std::size_t n = std::min<std::size_t>(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), n);
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 32;
    bytes.remove_prefix(n);
  }
  return hash;
}

// Joins the bytes of one pre-token. Parts are named by the position of their first byte; a heap of
// joinable pairs gives the next join. Entries are not removed when a pair changes: an entry counts
// only while the pair at its position still has its rank.
class Merger {
 public:
  Merger(const RankTable& table, std::string_view word, MergeScratch* scratch)
      : table_(table), word_(word), size_(static_cast<std::uint32_t>(word.size())), s_(*scratch) {
    s_.next.resize(size_ + 1);
    s_.previous.resize(size_ + 1);
    s_.pair_rank.assign(size_, RankTable::kNone);
    s_.heap.clear();
    for (std::uint32_t i = 0; i <= size_; ++i) {
      s_.next[i] = i + 1;
      s_.previous[i] = i - 1;  // wraps before the first part: never < size_
    }
  }

  void run() {
    for (std::uint32_t i = 0; i + 1 < size_; ++i) {
      s_.pair_rank[i] = table_.find(word_.substr(i, 2));
      if (s_.pair_rank[i] != RankTable::kNone) s_.heap.push_back(entry(i));
    }
    std::make_heap(s_.heap.begin(), s_.heap.end(), std::greater<>());
    while (!s_.heap.empty()) {
      const std::uint64_t top = s_.heap.front();
      std::pop_heap(s_.heap.begin(), s_.heap.end(), std::greater<>());
      s_.heap.pop_back();
      const auto at = static_cast<std::uint32_t>(top);
      if (s_.pair_rank[at] == static_cast<TokenId>(top >> 32)) join(at);
    }
  }

  void append_to(std::vector<TokenId>* out) const {
    for (std::uint32_t i = 0; i < size_; i = s_.next[i]) {
      out->push_back(table_.find(word_.substr(i, s_.next[i] - i)));
    }
  }

 private:
  // Rank first, then position: of equal ranks the leftmost pair is joined.
  std::uint64_t entry(std::uint32_t at) const {
    return static_cast<std::uint64_t>(s_.pair_rank[at]) << 32 | at;
  }

  void join(std::uint32_t at) {
    const std::uint32_t absorbed = s_.next[at];
    s_.pair_rank[absorbed] = RankTable::kNone;
    s_.next[at] = s_.next[absorbed];
    s_.previous[s_.next[at]] = at;
    update(at);
    if (s_.previous[at] < size_) update(s_.previous[at]);
  }

  void update(std::uint32_t at) {
    const std::uint32_t successor = s_.next[at];
    s_.pair_rank[at] = successor == size_ ? RankTable::kNone
                                          : table_.find(word_.substr(at, s_.next[successor] - at));
    if (s_.pair_rank[at] == RankTable::kNone) return;
    s_.heap.push_back(entry(at));
    std::push_heap(s_.heap.begin(), s_.heap.end(), std::greater<>());
  }

  const RankTable& table_;
  const std::string_view word_;
  const std::uint32_t size_;  // bytes
  MergeScratch& s_;
};

}  // namespace

Result<RankTable> RankTable::load(const std::filesystem::path& file) {
  return parse(TRY(read_text_file(file)), file.string());
}

Result<RankTable> RankTable::parse(std::string_view content, std::string_view name) {
  std::vector<std::string> tokens;       // by rank
  std::vector<std::size_t> first_lines;  // line that gave each rank, 0 if none
  const auto lines = static_cast<std::size_t>(std::count(content.begin(), content.end(), '\n')) + 1;
  std::size_t line_number = 0;
  while (!content.empty()) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    const std::string_view text = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    ++line_number;
    if (text.empty()) continue;
    std::optional<Line> line = parse_line(text);
    if (!line) return invalid("{}:{}: expected \"base64 rank\" on each line", name, line_number);
    if (line->rank > lines + kMaxHole) {
      return invalid("{}:{}: rank {} in a file of {} lines; expected ranks without a hole", name,
                     line_number, line->rank, lines);
    }
    if (line->rank >= tokens.size()) {
      tokens.resize(line->rank + 1);
      first_lines.resize(line->rank + 1);
    }
    if (first_lines[line->rank] != 0) {
      return invalid("{}:{}: rank {} is already on line {}; expected each rank once", name,
                     line_number, line->rank, first_lines[line->rank]);
    }
    first_lines[line->rank] = line_number;
    tokens[line->rank] = std::move(line->bytes);
  }
  const auto hole = std::find(first_lines.begin(), first_lines.end(), std::size_t{0});
  if (hole != first_lines.end()) {
    return invalid("{}: no line has rank {}; expected ranks 0..{} without a hole", name,
                   hole - first_lines.begin(), tokens.size() - 1);
  }
  RankTable table;
  table.offsets_.push_back(0);
  for (const std::string& token : tokens) {
    table.pool_ += token;
    table.offsets_.push_back(static_cast<std::uint32_t>(table.pool_.size()));
    table.longest_ = std::max(table.longest_, token.size());
  }
  TRY(table.index(name));
  return table;
}

Result<void> RankTable::index(std::string_view name) {
  slots_.assign(std::bit_ceil(2 * size() + 2), kNone);
  for (std::size_t i = 0; i < size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    std::size_t slot = hash_bytes(bytes(id)) & (slots_.size() - 1);
    while (slots_[slot] != kNone) {
      if (bytes(slots_[slot]) == bytes(id)) {
        return invalid("{}: ranks {} and {} have the same bytes; expected each token once", name,
                       slots_[slot], id);
      }
      slot = (slot + 1) & (slots_.size() - 1);
    }
    slots_[slot] = id;
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (find({&c, 1}) == kNone) {
      return invalid("{}: no token for the single byte 0x{:02X}; expected all 256", name, byte);
    }
  }
  return {};
}

std::string_view RankTable::bytes(TokenId id) const {
  const auto i = static_cast<std::size_t>(id);
  return std::string_view(pool_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
}

TokenId RankTable::find(std::string_view bytes) const {
  if (bytes.size() > longest_) return kNone;
  std::size_t slot = hash_bytes(bytes) & (slots_.size() - 1);
  while (slots_[slot] != kNone) {
    if (this->bytes(slots_[slot]) == bytes) return slots_[slot];
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return kNone;
}

void RankTable::encode(std::string_view word, MergeScratch* scratch,
                       std::vector<TokenId>* out) const {
  if (const TokenId whole = find(word); whole != kNone) {
    out->push_back(whole);
    return;
  }
  Merger merger(*this, word, scratch);
  merger.run();
  merger.append_to(out);
}

}  // namespace tandem
