// Who may ask, how often, and with what share of the machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace tandem {

struct ApiKey {
  std::string name = {};  // in logs and metrics; the secret never is
  std::string secret = {};
  double weight = 1;                     // share of the machine's time beside other keys, above 0
  std::int64_t requests_per_minute = 0;  // 0: any number
  std::int64_t max_concurrent = 0;       // requests being answered; 0: any number
};

// A JSON array of objects with `key`, and if wanted `name`, `weight`, `requests_per_minute` and
// `max_concurrent`; or lines with a key each, or a name and a key. Lines that begin with # are left
// out. Errors name the file and the entry, never a secret.
Result<std::vector<ApiKey>> read_api_keys(const std::filesystem::path& file);

// The keys of a server, and what each has used. Thread-safe; outlives its leases.
class ApiKeys {
 public:
  // `clock` outlives the keys. Refuses empty secrets, two keys of one name or secret, and figures
  // out of range.
  static Result<std::unique_ptr<ApiKeys>> create(std::vector<ApiKey> keys, const Clock& clock);

  bool empty() const { return entries_.empty(); }
  // The number of the key with this secret, from 1. The time that takes does not depend on how much
  // of a secret was right.
  std::optional<std::size_t> find(std::string_view secret) const;
  const ApiKey& at(std::size_t number) const { return entries_[number - 1].key; }

  // One request of a key while it is being answered. Dies with it.
  class Lease {
   public:
    Lease(ApiKeys* keys, std::size_t number) : keys_(keys), number_(number) {}
    ~Lease() { keys_->release(number_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

   private:
    ApiKeys* keys_;
    std::size_t number_;
  };
  struct Admission {
    std::unique_ptr<Lease> lease;    // nullptr: not now
    std::int64_t retry_after_s = 0;  // then
    std::string reason = {};         // then
  };
  // Counts a request against the key's limits. A minute's worth of requests may come at once.
  Admission admit(std::size_t number);

 private:
  struct Entry {
    ApiKey key;
    double allowance = 0;  // requests that may come now
    TimePoint refilled = {};
    std::int64_t running = 0;
  };

  ApiKeys(std::vector<Entry> entries, const Clock& clock)
      : clock_(clock), entries_(std::move(entries)) {}
  void release(std::size_t number);

  const Clock& clock_;
  std::mutex mutex_;  // guards what entries_ count, not their keys
  std::vector<Entry> entries_;
};

// Whether two texts are equal, in a time that depends on their lengths alone.
bool equal_in_constant_time(std::string_view a, std::string_view b);

// The secret of a request: of `Authorization: Bearer ...`, else of `x-api-key`; empty if there is
// none.
std::string_view secret_of(std::string_view authorization, std::string_view x_api_key);

}  // namespace tandem
