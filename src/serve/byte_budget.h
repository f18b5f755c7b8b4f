// A bound on bytes held together by many owners.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

namespace tandem {

// Thread-safe. Outlives its leases.
class ByteBudget {
 public:
  explicit ByteBudget(std::size_t limit) : limit_(limit) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // Bytes counted until the lease dies. Move-only; one owner at a time.
  class Lease {
   public:
    Lease() = default;
    explicit Lease(ByteBudget& budget) : budget_(&budget) {}
    Lease(Lease&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Lease() {
      if (budget_ != nullptr) budget_->held_ -= bytes_;
    }

    // Raises the count to `bytes`; false if the budget is exhausted (the count stands all the
    // same).
    bool grow_to(std::size_t bytes) {
      const std::size_t more = bytes > bytes_ ? bytes - bytes_ : 0;
      bytes_ += more;
      return (budget_->held_ += more) <= budget_->limit_;
    }

   private:
    ByteBudget* budget_ = nullptr;
    std::size_t bytes_ = 0;
  };

  std::size_t held() const { return held_; }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> held_{0};
};

}  // namespace tandem
