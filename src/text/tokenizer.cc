#include "text/tokenizer.h"

#include <limits>
#include <utility>

#include "text/utf8.h"

namespace tandem {

// Buffers of one encode call.
struct Tokenizer::Scratch {
  std::vector<std::size_t> ends;
  MergeScratch merge;
};

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::filesystem::path& folder,
                                                   std::int64_t vocab_size) {
  const std::filesystem::path config = folder / "tokenizer_config.json";
  RankTable ranks = TRY(RankTable::load(folder / "tiktoken.model"));
  const std::vector<SpecialToken> specials = TRY(read_special_tokens(config));
  Result<std::unique_ptr<Tokenizer>> tokenizer = create(std::move(ranks), specials, vocab_size);
  if (!tokenizer) {
    Status status = std::move(tokenizer).error();
    status.message = fmt::format("{}: {}", config.string(), status.message);
    return fail(std::move(status));
  }
  return tokenizer;
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(RankTable ranks,
                                                     const std::vector<SpecialToken>& specials,
                                                     std::int64_t vocab_size) {
  if (vocab_size < 1 || vocab_size > std::numeric_limits<TokenId>::max()) {
    return invalid("vocab_size {} is out of range", vocab_size);
  }
  SpecialTokenTable table = TRY(SpecialTokenTable::create(
      specials, static_cast<TokenId>(ranks.size()), static_cast<TokenId>(vocab_size)));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(ranks), std::move(table)));
}

std::vector<TokenId> Tokenizer::encode_plain(std::string_view text) const {
  return encode(text, Mode::kPlain);
}

std::vector<TokenId> Tokenizer::encode_markup(std::string_view text) const {
  return encode(text, Mode::kMarkup);
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, Mode mode) const {
  std::string repaired;
  if (!is_valid_utf8(text)) text = repaired = repair_utf8(text);
  std::vector<TokenId> ids;
  Scratch scratch;
  for (const std::string_view chunk : cut_text(text)) encode_chunk(chunk, mode, &scratch, &ids);
  return ids;
}

void Tokenizer::encode_chunk(std::string_view chunk, Mode mode, Scratch* scratch,
                             std::vector<TokenId>* out) const {
  if (mode == Mode::kMarkup) {
    while (const auto match = specials_.find_in(chunk)) {
      encode_words(chunk.substr(0, match->position), scratch, out);
      out->push_back(match->id);
      chunk.remove_prefix(match->position + specials_.at(match->id).name.size());
    }
  }
  encode_words(chunk, scratch, out);
}

void Tokenizer::encode_words(std::string_view text, Scratch* scratch,
                             std::vector<TokenId>* out) const {
  scratch->ends.clear();
  pre_tokenizer_.split(text, &scratch->ends);
  std::size_t start = 0;
  for (const std::size_t end : scratch->ends) {
    ranks_.encode(text.substr(start, end - start), &scratch->merge, out);
    start = end;
  }
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  if (!contains(id)) return {};
  return id < rank_count() ? ranks_.bytes(id) : std::string_view(specials_.at(id).name);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, SpecialText special) const {
  std::string bytes;
  for (const TokenId id : ids) {
    if (special == SpecialText::kKeep || !is_special(id)) bytes += token_bytes(id);
  }
  return repair_utf8(bytes);
}

bool Tokenizer::is_special(TokenId id) const {
  return id >= rank_count() && id < vocab_size() && specials_.at(id).is_special;
}

}  // namespace tandem
