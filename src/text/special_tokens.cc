#include "text/special_tokens.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/file.h"

namespace tandem {
namespace {

std::optional<TokenId> parse_id(const std::string& text) {
  TokenId id = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, id);
  if (error != std::errc() || stop != end || id < 0) return std::nullopt;
  return id;
}

}  // namespace

Result<std::vector<SpecialToken>> read_special_tokens(const std::filesystem::path& file) {
  const std::string content = TRY(read_text_file(file));
  nlohmann::json config;
  try {
    config = nlohmann::json::parse(content);
  } catch (const nlohmann::json::exception& error) {
    return invalid("{}: expected JSON: {}", file.string(), error.what());
  }
  const auto decoder = config.find("added_tokens_decoder");
  if (decoder == config.end() || !decoder->is_object()) {
    return invalid("{}: expected an object \"added_tokens_decoder\"", file.string());
  }
  std::vector<SpecialToken> tokens;
  for (const auto& [key, entry] : decoder->items()) {
    const std::optional<TokenId> id = parse_id(key);
    const auto name = entry.find("content");
    const auto special = entry.find("special");
    const bool flagged = special != entry.end();
    if (!id || name == entry.end() || !name->is_string() || (flagged && !special->is_boolean())) {
      return invalid(
          "{}: added_tokens_decoder[\"{}\"]: expected an id with a string \"content\" and a "
          "boolean "
          "\"special\"",
          file.string(), key);
    }
    tokens.push_back({*id, name->get<std::string>(), flagged && special->get<bool>()});
  }
  return tokens;
}

Result<SpecialTokenTable> SpecialTokenTable::create(const std::vector<SpecialToken>& tokens,
                                                    TokenId first, TokenId vocab_size) {
  if (vocab_size < first) {
    return invalid("vocab_size {} is smaller than the {} byte-pair ranks", vocab_size, first);
  }
  SpecialTokenTable table;
  table.first_ = first;
  table.tokens_.resize(static_cast<std::size_t>(vocab_size - first));
  for (const SpecialToken& token : tokens) {
    if (token.id < first || token.id >= vocab_size) {
      return invalid("special token \"{}\": id {} is out of range; expected {}..{}", token.name,
                     token.id, first, vocab_size - 1);
    }
    SpecialToken& slot = table.tokens_[static_cast<std::size_t>(token.id - first)];
    if (token.name.empty() || !slot.name.empty()) {
      return invalid("special token id {}: expected one non-empty name", token.id);
    }
    slot = token;
  }
  for (TokenId id = first; id < vocab_size; ++id) {
    SpecialToken& token = table.tokens_[static_cast<std::size_t>(id - first)];
    token.id = id;
    if (token.name.empty()) token.name = fmt::format("<|reserved_token_{}|>", id);
    if (const auto [it, inserted] = table.by_name_.emplace(token.name, id); !inserted) {
      return invalid("special token \"{}\" is named for ids {} and {}; expected each name once",
                     token.name, it->second, id);
    }
    table.lengths_.push_back(token.name.size());
    if (table.first_bytes_.find(token.name[0]) == std::string::npos) {
      table.first_bytes_ += token.name[0];
    }
  }
  std::sort(table.lengths_.begin(), table.lengths_.end(), std::greater<>());
  table.lengths_.erase(std::unique(table.lengths_.begin(), table.lengths_.end()),
                       table.lengths_.end());
  return table;
}

std::optional<TokenId> SpecialTokenTable::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) return std::nullopt;
  return it->second;
}

std::optional<SpecialTokenTable::Match> SpecialTokenTable::find_in(std::string_view text) const {
  for (std::size_t at = text.find_first_of(first_bytes_); at != std::string_view::npos;
       at = text.find_first_of(first_bytes_, at + 1)) {
    for (const std::size_t length : lengths_) {
      if (length > text.size() - at) continue;
      if (const auto id = find(text.substr(at, length))) return Match{at, *id};
    }
  }
  return std::nullopt;
}

}  // namespace tandem
