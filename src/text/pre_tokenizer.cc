#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "text/utf8.h"

namespace tandem {
namespace {

constexpr std::size_t kMaxChunk = 400'000;  // code points
constexpr std::size_t kMaxRun = 25'000;     // code points

// The rules are written for classes "U = {Lu, Lt, Lm, Lo, M} without Han" and "W = {Ll, Lm, Lo, M}
// without Han". PCRE2 has no class intersection (`&&` means two ampersands), so each class is the
// complement of everything else. `\p{Han}` alone would mean Script_Extensions, and `\s` is one
// character more than White_Space (U+180E).
#define TANDEM_HAN "\\p{sc:Han}"
#define TANDEM_U "[^\\p{Ll}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}" TANDEM_HAN "]"
#define TANDEM_W "[^\\p{Lu}\\p{Lt}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}" TANDEM_HAN "]"
#define TANDEM_SPACE                                                                          \
  "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
  "\\x{205f}\\x{3000}"
#define TANDEM_LEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define TANDEM_SUFFIX "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

constexpr char kPattern[] =  //
    TANDEM_HAN
    "++"                                                     //
    "|" TANDEM_LEAD TANDEM_U "*" TANDEM_W "+" TANDEM_SUFFIX  //
    "|" TANDEM_LEAD TANDEM_U "+" TANDEM_W "*" TANDEM_SUFFIX  //
    "|\\p{N}{1,3}"                                           //
    "| ?[^" TANDEM_SPACE
    "\\p{L}\\p{N}]++[\\r\\n]*+"  //
    "|[" TANDEM_SPACE
    "]*[\\r\\n]+"  //
    "|[" TANDEM_SPACE "]+(?![^" TANDEM_SPACE
    "])"  //
    "|[" TANDEM_SPACE "]++";

#undef TANDEM_HAN
#undef TANDEM_U
#undef TANDEM_W
#undef TANDEM_SPACE
#undef TANDEM_LEAD
#undef TANDEM_SUFFIX

// The tokenizer's rules follow Unicode 15; the PCRE2 of Debian 12 knows Unicode 14. Every letter,
// mark and number that came with 15 is matched as a stand-in with the same role and the same length
// in UTF-8, so that offsets stay.
constexpr char32_t kMark3 = 0x0CE2, kMark = 0x1D165, kLetter = 0x10000, kLower = 0x10428,
                   kNumber = 0x10107, kHan = 0x20000;
struct NewRange {
  char32_t first, last, stand_in;
};
constexpr std::array kUnicode15 = {
    NewRange{0x0CF3, 0x0CF3, kMark3},    NewRange{0x0ECE, 0x0ECE, kMark3},
    NewRange{0x10EFD, 0x10EFF, kMark},   NewRange{0x1123F, 0x11240, kLetter},
    NewRange{0x11241, 0x11241, kMark},   NewRange{0x11F00, 0x11F01, kMark},
    NewRange{0x11F02, 0x11F02, kLetter}, NewRange{0x11F03, 0x11F03, kMark},
    NewRange{0x11F04, 0x11F10, kLetter}, NewRange{0x11F12, 0x11F33, kLetter},
    NewRange{0x11F34, 0x11F3A, kMark},   NewRange{0x11F3E, 0x11F42, kMark},
    NewRange{0x11F50, 0x11F59, kNumber}, NewRange{0x1342F, 0x1342F, kLetter},
    NewRange{0x13440, 0x13440, kMark},   NewRange{0x13441, 0x13446, kLetter},
    NewRange{0x13447, 0x13455, kMark},   NewRange{0x1B132, 0x1B132, kLetter},
    NewRange{0x1B155, 0x1B155, kLetter}, NewRange{0x1D2C0, 0x1D2D3, kNumber},
    NewRange{0x1DF25, 0x1DF2A, kLower},  NewRange{0x1E030, 0x1E06D, kLetter},
    NewRange{0x1E08F, 0x1E08F, kMark},   NewRange{0x1E4D0, 0x1E4EB, kLetter},
    NewRange{0x1E4EC, 0x1E4EF, kMark},   NewRange{0x1E4F0, 0x1E4F9, kNumber},
    NewRange{0x2B739, 0x2B739, kHan},    NewRange{0x31350, 0x323AF, kHan},
};

void write_utf8(char32_t c, std::size_t length, char* out) {
  for (std::size_t i = length; i-- > 1; c >>= 6) out[i] = static_cast<char>(0x80 | (c & 0x3F));
  out[0] = static_cast<char>((length == 3 ? 0xE0 : 0xF0) | c);
}

// The text to match: `text`, or `storage` with stand-ins where it has characters new in Unicode 15.
std::string_view with_stand_ins(std::string_view text, std::string* storage) {
  // Lead bytes of the ranges above: U+0C00..U+0FFF and beyond U+FFFF.
  constexpr std::string_view kLeads = "\xE0\xF0";
  for (std::size_t at = text.find_first_of(kLeads); at != std::string_view::npos;
       at = text.find_first_of(kLeads, at + 1)) {
    const Utf8Step step = next_utf8(text.substr(at));
    const auto* range =
        std::find_if(kUnicode15.begin(), kUnicode15.end(), [&](const NewRange& candidate) {
          return step.code_point >= candidate.first && step.code_point <= candidate.last;
        });
    if (range == kUnicode15.end()) continue;
    if (storage->empty()) storage->assign(text);
    write_utf8(range->stand_in, step.length, storage->data() + at);
  }
  return storage->empty() ? text : *storage;
}

// Byte length of the code point that `lead` begins.
std::size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

void cut_runs(std::string_view text, std::vector<std::string_view>* chunks) {
  std::size_t start = 0, run = 0;
  bool run_is_space = false;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text.substr(at));
    const bool is_space = is_python_space(step.code_point);
    if (is_space != run_is_space || run == kMaxRun) {
      if (is_space == run_is_space) {
        chunks->push_back(text.substr(start, at - start));
        start = at;
      }
      run = 0;
      run_is_space = is_space;
    }
    ++run;
    at += step.length;
  }
  if (start < text.size()) chunks->push_back(text.substr(start));
}

}  // namespace

struct PreTokenizer::Compiled {
  pcre2_code* code = nullptr;
  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() { pcre2_code_free(code); }
};

PreTokenizer::PreTokenizer() {
  auto compiled = std::make_unique<Compiled>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kPattern), sizeof kPattern - 1,
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &offset, nullptr);
  CHECK(compiled->code != nullptr, "the pre-tokeniser: PCRE2 error {} at offset {}", error, offset);
  // Where executable memory is forbidden this fails and pcre2_match interprets: slower, same
  // result.
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
  compiled_ = std::move(compiled);
}

PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;

void PreTokenizer::split(std::string_view text, std::vector<std::size_t>* ends) const {
  std::string storage;
  const std::string_view subject = with_stand_ins(text, &storage);
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  CHECK(match != nullptr, "out of memory");
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(match.get());
  for (std::size_t at = 0; at < subject.size(); at = offsets[1]) {
    const int rc = pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(subject.data()),
                               subject.size(), at, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    // Every character begins some alternative, and chunks are short enough for PCRE2's limits.
    CHECK(rc > 0 && offsets[1] > at, "pre-token at byte {}: PCRE2 error {}", at, rc);
    ends->push_back(offsets[1]);
  }
}

std::vector<std::string_view> cut_text(std::string_view text) {
  std::vector<std::string_view> chunks;
  if (text.size() <= kMaxRun) {  // at least a byte per code point: nothing can exceed a limit
    if (!text.empty()) chunks.push_back(text);
    return chunks;
  }
  while (!text.empty()) {
    std::size_t end = 0;
    for (std::size_t n = 0; n < kMaxChunk && end < text.size(); ++n) end += utf8_length(text[end]);
    cut_runs(text.substr(0, end), &chunks);
    text.remove_prefix(end);
  }
  return chunks;
}

}  // namespace tandem
