#include "serve/request_log.h"

#include <algorithm>
#include <utility>

namespace tandem {

class RequestLog::Watch final : public TokenSink {
 public:
  Watch(RequestLog& log, std::int64_t prompt_tokens, std::unique_ptr<TokenSink> sink)
      : log_(log), sink_(std::move(sink)), number_(log.begin(prompt_tokens)) {}
  ~Watch() override { log_.forget(number_); }

  Verdict on_token(const SampledToken& token) override {
    log_.token(number_);
    return sink_->on_token(token);
  }
  void on_finish(const GenerateResult& result) override {
    log_.end(number_, result);
    sink_->on_finish(result);
  }

 private:
  RequestLog& log_;
  const std::unique_ptr<TokenSink> sink_;
  const std::uint64_t number_;
};

std::unique_ptr<TokenSink> RequestLog::watch(std::int64_t prompt_tokens,
                                             std::unique_ptr<TokenSink> sink) {
  return std::make_unique<Watch>(*this, prompt_tokens, std::move(sink));
}

std::uint64_t RequestLog::begin(std::int64_t prompt_tokens) {
  const double now = now_ms();
  std::lock_guard lock(mutex_);
  const std::uint64_t number = ++last_number_;
  open_.emplace(
      number, RequestRecord{.number = number, .prompt_tokens = prompt_tokens, .submitted_ms = now});
  return number;
}

void RequestLog::token(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  RequestRecord& record = open_.at(number);
  if (++record.answer_tokens == 1) record.first_token_ms = now_ms();
}

void RequestLog::end(std::uint64_t number, const GenerateResult& result) {
  const CacheUse& cache = result.usage.cache;
  std::lock_guard lock(mutex_);
  auto node = open_.extract(number);
  node.mapped().result = result;
  ended_.push_back(std::move(node.mapped()));
  if (ended_.size() > kKept) ended_.pop_front();
  // A request that never had a token may never have been looked up.
  if (!ended_.back().first_token_ms) return;
  const auto miss = static_cast<std::size_t>(cache.miss);
  totals_.prompts += 1;
  totals_.prompt_tokens += result.usage.prompt_tokens;
  totals_.cached_tokens += cache.cached_tokens;
  totals_.misses[miss] += 1;
  totals_.missed_tokens[miss] += result.usage.prompt_tokens - cache.cached_tokens;
}

void RequestLog::forget(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  open_.erase(number);
}

PromptTotals RequestLog::totals() const {
  std::lock_guard lock(mutex_);
  return totals_;
}

std::vector<RequestRecord> RequestLog::recent() const {
  std::vector<RequestRecord> records;
  {
    std::lock_guard lock(mutex_);
    records.assign(ended_.begin(), ended_.end());
    for (const auto& [number, record] : open_) records.push_back(record);
  }
  std::sort(records.begin(), records.end(),
            [](const RequestRecord& a, const RequestRecord& b) { return a.number < b.number; });
  return records;
}

}  // namespace tandem
