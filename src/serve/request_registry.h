// Requests in flight by name: what aborts them, and keeps a name from being used twice at once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace tandem {

// Thread-safe. Outlives its leases.
class RequestRegistry {
 public:
  // A name in use. Move-only; the name is free again when it dies.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept
        : registry_(std::exchange(other.registry_, nullptr)), number_(other.number_) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(registry_, other.registry_);
      std::swap(number_, other.number_);
      return *this;
    }
    ~Lease() {
      if (registry_ != nullptr) registry_->remove(number_);
    }

    // `cancel` is called by abort(), on its thread; here and now if that came first.
    void on_abort(std::function<void()> cancel) const {
      if (registry_ != nullptr) registry_->set_cancel(number_, std::move(cancel));
    }

   private:
    friend class RequestRegistry;
    Lease(RequestRegistry* registry, std::uint64_t number) : registry_(registry), number_(number) {}

    RequestRegistry* registry_ = nullptr;
    std::uint64_t number_ = 0;
  };

  // kInvalidArgument if a request of that name is in flight; `field` is where the client gave it.
  Result<Lease> add(const std::string& name, const std::string& field);

  // Cancels the requests whose name begins with `prefix`; all of them if it is empty. How many.
  int abort(std::string_view prefix);

 private:
  struct Entry {
    std::string name;
    bool aborted = false;
    std::function<void()> cancel;
  };

  void remove(std::uint64_t number);
  void set_cancel(std::uint64_t number, std::function<void()> cancel);

  std::mutex mutex_;  // guards what follows
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Entry> entries_;
  std::map<std::string, std::uint64_t, std::less<>> numbers_;
};

}  // namespace tandem
