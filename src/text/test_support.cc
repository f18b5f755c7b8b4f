#include "text/test_support.h"

#include <fstream>
#include <string>

#include "base/check.h"

namespace tandem {
namespace {

constexpr TokenId kWindow = 256;  // special ids of the vendors' vocabularies

// Names by offset from the first special id.
std::vector<SpecialToken> k3_names(TokenId base) {
  return {{base + 0, "[BOS]", true},
          {base + 1, "[EOS]", true},
          {base + 2, "<|end_of_msg|>", true},
          {base + 3, "<|open|>", false},
          {base + 4, "<|close|>", false},
          {base + 5, "<|sep|>", false},
          {base + 6, "[start_header_id]", true},
          {base + 7, "[end_header_id]", true},
          {base + 9, "[EOT]", true},
          {base + 18, "<|media_begin|>", true},
          {base + 19, "<|media_content|>", true},
          {base + 20, "<|media_end|>", true},
          {base + 21, "<|media_pad|>", true},
          {base + 65, "<osagent_mode>", true},
          {base + 254, "[UNK]", true},
          {base + 255, "[PAD]", true}};
}

std::vector<SpecialToken> kimi_linear_names(TokenId base) {
  return {{base + 0, "[BOS]", true},
          {base + 1, "[EOS]", true},
          {base + 2, "<|im_end|>", true},
          {base + 3, "<|im_user|>", true},
          {base + 4, "<|im_assistant|>", true},
          {base + 6, "<|start_header_id|>", true},
          {base + 7, "<|end_header_id|>", true},
          {base + 9, "[EOT]", true},
          {base + 10, "<|im_system|>", true},
          {base + 11, "<|tool_calls_section_begin|>", false},
          {base + 12, "<|tool_calls_section_end|>", false},
          {base + 13, "<|tool_call_begin|>", false},
          {base + 14, "<|tool_call_argument_begin|>", false},
          {base + 15, "<|tool_call_end|>", false},
          {base + 17, "<|im_middle|>", true},
          {base + 18, "<|media_begin|>", true},
          {base + 19, "<|media_content|>", true},
          {base + 20, "<|media_end|>", true},
          {base + 21, "<|media_pad|>", true},
          {base + 22, "<think>", false},
          {base + 23, "</think>", false},
          {base + 254, "[UNK]", true},
          {base + 255, "[PAD]", true}};
}

std::string base64(std::string_view bytes) {
  constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = i; k < i + 3; ++k) {
      bits = bits << 8 | (k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += k <= bytes.size() - i ? kAlphabet[bits >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

RankTable byte_ranks(const std::vector<std::string>& more) {
  std::string file;
  std::size_t rank = 0;
  for (int byte = 0; byte < 256; ++byte) {
    file += fmt::format("{} {}\n", base64(std::string(1, static_cast<char>(byte))), rank++);
  }
  for (const std::string& bytes : more) file += fmt::format("{} {}\n", base64(bytes), rank++);
  return RankTable::parse(file, "bytes").value();
}

using Names = std::vector<SpecialToken> (*)(TokenId);

std::unique_ptr<Tokenizer> make(RankTable ranks, Names names) {
  const auto base = static_cast<TokenId>(ranks.size());
  return Tokenizer::create(std::move(ranks), names(base), base + kWindow).value();
}

RankTable reference_ranks() {
  return RankTable::load(reference_folder() / "tokenizer/tiktoken.model").value();
}

}  // namespace

nlohmann::json test_data(const char* name) {
  std::ifstream in(std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/text" / name);
  CHECK(in.good(), "tests/data/text/{}", name);
  return nlohmann::json::parse(in);
}

const Tokenizer& demo_tokenizer() {
  static const std::unique_ptr<Tokenizer> tokenizer =
      Tokenizer::load(std::filesystem::path(TANDEM_SOURCE_DIR) / "models/demo", 4096).value();
  return *tokenizer;
}

std::filesystem::path reference_folder() {
  return std::filesystem::path(TANDEM_SOURCE_DIR) / "../shared/oracle";
}

std::vector<nlohmann::ordered_json> reference_lines(const char* name) {
  std::ifstream in(reference_folder() / name);
  std::vector<nlohmann::ordered_json> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(nlohmann::ordered_json::parse(line));
  }
  return lines;
}

std::unique_ptr<Tokenizer> reference_k3_tokenizer() { return make(reference_ranks(), k3_names); }

std::unique_ptr<Tokenizer> reference_kimi_linear_tokenizer() {
  return make(reference_ranks(), kimi_linear_names);
}

std::unique_ptr<Tokenizer> byte_k3_tokenizer(const std::vector<std::string>& more) {
  return make(byte_ranks(more), k3_names);
}

std::unique_ptr<Tokenizer> byte_kimi_linear_tokenizer(const std::vector<std::string>& more) {
  return make(byte_ranks(more), kimi_linear_names);
}

}  // namespace tandem
