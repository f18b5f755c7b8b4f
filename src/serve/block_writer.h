// An answer as blocks - thinking, text and tool calls in the order in which they begin - for
// protocols that number them and announce where each begins and ends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/answer_usage.h"
#include "serve/answer_writer.h"

namespace tandem {

struct AnswerBlock {
  enum class Kind { kThinking, kText, kCall };
  Kind kind = Kind::kText;
  std::string text = {};  // of a call its arguments, as the model wrote them
  std::string id = {};    // kCall
  std::string name = {};  // kCall: the tool
  bool whole = false;     // ended by the model, not by a limit; a call that is not is void
};

// For one choice. Belongs to the network thread.
class BlockWriter : public AnswerWriter {
 public:
  explicit BlockWriter(std::int64_t prompt_tokens) : usage_(prompt_tokens, 1) {}

  void on_events(int choice, const std::vector<OutputEvent>& events,
                 std::span<const SampledToken> tokens) final;
  void on_end(int choice, const AnswerResult& result) final;

 protected:
  // `index` is that of the block among all so far. At most one block is open.
  virtual void on_block_begin(std::size_t index, const AnswerBlock& block) = 0;
  // `piece` has been added to the block; it is not empty.
  virtual void on_block_text(std::size_t index, const AnswerBlock& block,
                             std::string_view piece) = 0;
  virtual void on_block_end(std::size_t index, const AnswerBlock& block) = 0;

  const std::vector<AnswerBlock>& blocks() const { return blocks_; }
  // Meaningful from complete() on.
  const AnswerResult& result() const { return result_; }
  const AnswerUsage& usage() const { return usage_.usage(); }

 private:
  void begin_block(AnswerBlock block);
  void end_block(bool whole);
  void add_text(AnswerBlock::Kind kind, std::string_view text);

  UsageCount usage_;
  std::vector<AnswerBlock> blocks_;
  bool is_open_ = false;  // the last block
  AnswerResult result_;
};

}  // namespace tandem
