#include "text/detokenizer.h"
#include "text/output_parser.h"

namespace tandem {
namespace {

class PlainOutputParser final : public OutputParser {
 public:
  PlainOutputParser(const Tokenizer& tokenizer, SpecialText special)
      : OutputParser(tokenizer, {}), detokenizer_(tokenizer, special) {}

 private:
  void on_token(TokenId id) override {
    emit_text(OutputEvent::Kind::kContent, detokenizer_.feed(id));
  }
  void on_finish() override { emit_text(OutputEvent::Kind::kContent, detokenizer_.flush()); }

  Detokenizer detokenizer_;
};

}  // namespace

std::unique_ptr<OutputParser> make_plain_output_parser(const Tokenizer& tokenizer,
                                                       SpecialText special) {
  return std::make_unique<PlainOutputParser>(tokenizer, special);
}

}  // namespace tandem
