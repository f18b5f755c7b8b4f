// Cases that engines of this kind have been seen to get wrong, for both families: whatever the cut
// into tokens, wherever the answer is truncated, what streams adds up to the whole answer.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "text/answer_stream.h"
#include "text/json_text.h"
#include "text/test_support.h"
#include "text/utf8.h"

namespace tandem {
namespace {

using Ids = std::vector<TokenId>;
using Kind = OutputEvent::Kind;

// One token a byte, and the bundled model's.
struct Family {
  std::string name;
  ChatFamily family;
  std::vector<std::shared_ptr<const Tokenizer>> tokenizers;
  std::string call;       // of f with the arguments below, around it what the family wants
  std::string arguments;  // as a client gets them
};

const std::string kText = "he said \"é🫠\" }<|close|";

std::vector<Family> families() {
  const std::string k3_call =
      "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|>"
      "<|open|>argument key=\"text\" type=\"string\"<|sep|>" +
      kText +
      "<|close|>argument<|sep|><|open|>argument key=\"n\" type=\"number\"<|sep|>12"
      "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>";
  const std::string json = "{\"text\": \"" + escape_json(kText) + "\", \"n\": 12}";
  const std::string kimi_linear_call =
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>" +
      json + "<|tool_call_end|><|tool_calls_section_end|>";
  const std::shared_ptr<const Tokenizer> demo(&demo_tokenizer(), [](const Tokenizer*) {});
  return {{"Kimi K3", ChatFamily::kK3, {byte_k3_tokenizer(), demo}, k3_call, json},
          {"Kimi Linear",
           ChatFamily::kKimiLinear,
           {byte_kimi_linear_tokenizer()},
           kimi_linear_call,
           json}};
}

struct Read {
  Answer answer;
  std::vector<OutputEvent> events;
  std::string content, begun_arguments;  // what streams
  AnswerEnd end = AnswerEnd::kStop;
  std::string stop;
};

Read read(const Family& family, const Tokenizer& tokenizer, const Ids& ids,
          const std::vector<std::string>& stops = {}) {
  OutputParserOptions options;
  options.tool_names = {"f"};
  AnswerStream stream(make_output_parser(family.family, tokenizer, options), stops);
  Read result;
  const auto take = [&](const std::vector<OutputEvent>& events) {
    for (const OutputEvent& event : events) {
      result.answer.add(event);
      result.events.push_back(event);
      if (event.kind == Kind::kContent) result.content += event.text;
      if (event.kind == Kind::kToolCallArguments) result.begun_arguments += event.text;
      EXPECT_TRUE(is_valid_utf8(event.text)) << event.text;
    }
  };
  for (const TokenId id : ids) take(stream.feed(id));
  result.stop = stream.stop_string();
  OutputParser::Finish finish = stream.finish(AnswerEnd::kLength);
  take(finish.events);
  result.end = finish.end;
  return result;
}

// Calls `check` with each family and each of its tokenizers.
template <typename Check>
void for_each_tokenizer(const Check& check) {
  for (const Family& family : families()) {
    for (const auto& tokenizer : family.tokenizers) {
      SCOPED_TRACE(fmt::format("{}, {} ranks", family.name, tokenizer->rank_count()));
      check(family, *tokenizer);
    }
  }
}

TEST(C52SplitCharacters, characters_of_many_tokens_stream_whole) {
  const std::string texts[] = {
      "👩🏽‍🚀👨‍👩‍👧‍👦👍🏿",  // skin tones, joiners
      "🇩🇪🇯🇵",                                              // flags: two code points each
      "안녕하세요 한국어",                                 // Hangul
      "क्षत्रिय नमस्ते",                                       // Devanagari with conjuncts
      "𠮷野家𪚥龘",                                        // rare CJK of four bytes
      "e\xCC\x81\xEF\xBF\xBD",  // a combining mark, a replacement character of the model's own
  };
  for_each_tokenizer([&](const Family& family, const Tokenizer& tokenizer) {
    for (const std::string& text : texts) {
      const Ids ids = tokenizer.encode_plain(text);
      const Read whole = read(family, tokenizer, ids);
      EXPECT_EQ(whole.content, text);
      EXPECT_EQ(whole.content, tokenizer.decode(ids));
      // Cut off by max_tokens: whole characters, then one replacement if a character was cut.
      for (std::size_t n = 0; n < ids.size(); ++n) {
        const Ids part(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n));
        EXPECT_EQ(read(family, tokenizer, part).content, tokenizer.decode(part));
      }
    }
  });
}

TEST(C54StopStrings, nothing_of_a_stop_shows_and_what_fails_to_match_is_released) {
  const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  struct Case {
    std::string text;
    std::vector<std::string> stops;
    std::string shown, stop;
  };
  const std::string long_stop(64, 'x');
  const Case cases[] = {
      {alphabet, {"DEFGHIJ"}, "ABC", "DEFGHIJ"},
      {alphabet, {"DEFGHIX"}, alphabet, ""},
      {alphabet, {"Q"}, "ABCDEFGHIJKLMNOP", "Q"},
      {"a 🫠 b", {"🫠"}, "a ", "🫠"},
      {"a 🫡 b", {"🫠"}, "a 🫡 b", ""},  // shares its first three bytes
      {"y" + long_stop, {long_stop}, "y", long_stop},
      {"y" + long_stop.substr(1), {long_stop}, "y" + long_stop.substr(1), ""},
      {"aaaab", {"aab", "ab"}, "aa", "aab"},
      {"xab", {"aab", "ab"}, "x", "ab"},
      {"aa", {"aab", "ab"}, "aa", ""},
      {"ababac", {"abac"}, "ab", "abac"},
  };
  for_each_tokenizer([&](const Family& family, const Tokenizer& tokenizer) {
    for (const Case& c : cases) {
      const Read result = read(family, tokenizer, tokenizer.encode_plain(c.text), c.stops);
      EXPECT_EQ(result.content, c.shown) << c.text;
      EXPECT_EQ(result.stop, c.stop) << c.text;
      EXPECT_EQ(result.end, c.stop.empty() ? AnswerEnd::kLength : AnswerEnd::kStop);
    }
  });
}

// A text's tokens under every cut of the runs of bytes between markers.
class Cutter {
 public:
  Cutter(const Family& family, const std::string& text) {
    const Tokenizer& bytes = *family.tokenizers.front();
    for (const TokenId id : bytes.encode_markup(text)) {
      if (id >= bytes.rank_count()) {
        parts_.push_back({true, {}, id - bytes.rank_count()});
      } else if (parts_.empty() || parts_.back().is_marker) {
        parts_.push_back({false, std::string(bytes.token_bytes(id)), 0});
      } else {
        parts_.back().text += bytes.token_bytes(id);
      }
    }
    std::set<std::string> pieces;
    for (const Part& part : parts_) {
      for (std::size_t begin = 0; begin < part.text.size(); ++begin) {
        for (std::size_t size = 2; begin + size <= part.text.size(); ++size) {
          pieces.insert(part.text.substr(begin, size));
        }
      }
    }
    const std::vector<std::string> more(pieces.begin(), pieces.end());
    for (std::size_t i = 0; i < more.size(); ++i) {
      ids_[more[i]] = 256 + static_cast<TokenId>(i);
    }
    for (int byte = 0; byte < 256; ++byte) ids_[std::string(1, static_cast<char>(byte))] = byte;
    tokenizer_ = family.family == ChatFamily::kK3 ? byte_k3_tokenizer(more)
                                                  : byte_kimi_linear_tokenizer(more);
  }

  const Tokenizer& tokenizer() const { return *tokenizer_; }

  // Every run in tokens of `size` bytes.
  Ids pieces_of(std::size_t size) const {
    Ids ids;
    for (const Part& part : parts_) append(part, size, size, &ids);
    return ids;
  }
  // Every run as one token, but one, which is two.
  std::vector<Ids> two_pieces() const {
    std::vector<Ids> all;
    for (std::size_t cut = 0; cut < parts_.size(); ++cut) {
      for (std::size_t at = 1; at < parts_[cut].text.size(); ++at) {
        Ids ids;
        for (std::size_t i = 0; i < parts_.size(); ++i) {
          append(parts_[i], i == cut ? at : std::string::npos, std::string::npos, &ids);
        }
        all.push_back(std::move(ids));
      }
    }
    return all;
  }

 private:
  struct Part {
    bool is_marker;
    std::string text;
    TokenId marker;  // counted from the first special id
  };

  void append(const Part& part, std::size_t first, std::size_t others, Ids* ids) const {
    if (part.is_marker) ids->push_back(tokenizer_->rank_count() + part.marker);
    for (std::size_t at = 0, size = first; at < part.text.size(); size = others) {
      const std::string piece = part.text.substr(at, size);
      ids->push_back(ids_.at(piece));
      at += piece.size();
    }
  }

  std::vector<Part> parts_;
  std::map<std::string, TokenId> ids_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST(C56EverySplit, a_call_is_the_same_however_its_text_is_cut) {
  for (const Family& family : families()) {
    SCOPED_TRACE(family.name);
    const Cutter cutter(family, "hm é " + family.call);
    std::vector<Ids> cuts = cutter.two_pieces();
    EXPECT_GT(cuts.size(), 50u);
    for (std::size_t size = 1; size <= 20; ++size) cuts.push_back(cutter.pieces_of(size));
    for (const Ids& ids : cuts) {
      const Read result = read(family, cutter.tokenizer(), ids);
      EXPECT_EQ(result.content, "hm é ");
      ASSERT_EQ(result.answer.tool_calls.size(), 1u);
      EXPECT_EQ(result.answer.tool_calls[0].arguments, family.arguments);
      EXPECT_EQ(result.begun_arguments, family.arguments);
      EXPECT_EQ(result.end, AnswerEnd::kToolCalls);
    }
  }
}

TEST(C56EverySplit, a_truncated_call_streams_a_true_prefix_and_is_left_out_when_whole) {
  for_each_tokenizer([](const Family& family, const Tokenizer& tokenizer) {
    const Ids ids = tokenizer.encode_markup("hm " + family.call);
    std::size_t last = 0;
    for (std::size_t n = 0; n <= ids.size(); ++n) {
      const Read part =
          read(family, tokenizer, Ids(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n)));
      EXPECT_TRUE(std::string("hm ").starts_with(part.content)) << part.content;
      EXPECT_TRUE(family.arguments.starts_with(part.begun_arguments)) << part.begun_arguments;
      EXPECT_GE(part.begun_arguments.size(), last);
      last = part.begun_arguments.size();
      const bool is_complete = !part.answer.tool_calls.empty();
      EXPECT_EQ(part.end, is_complete ? AnswerEnd::kToolCalls : AnswerEnd::kLength);
      if (is_complete) {
        EXPECT_EQ(part.answer.tool_calls[0].arguments, family.arguments);
      }
    }
    EXPECT_EQ(last, family.arguments.size());
  });
}

}  // namespace
}  // namespace tandem
