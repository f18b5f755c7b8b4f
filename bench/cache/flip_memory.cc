#include "cache/flip_memory.h"

#include "base/check.h"

namespace tandem {
namespace {

class JointMemory final : public FlipMemory {
 public:
  explicit JointMemory(const ArenaGeometry& geometry) {
    auto arena = Arena::create(geometry);
    CHECK(arena.has_value(), "{}", arena.error().message);
    arena_ = *std::move(arena);
  }

  bool admit(std::uint64_t request, EntryCounts need) override {
    if (!arena_->can_allocate({.states = need.states, .pages = need.pages + promised_pages_})) {
      return false;
    }
    Tenant& tenant = tenants_[request];
    tenant.promised_pages = need.pages;
    promised_pages_ += need.pages;
    for (std::int64_t i = 0; i < need.states; ++i) {
      tenant.states.push_back(arena_->allocate_work(RequestId{request}));
      CHECK(static_cast<bool>(tenant.states.back()), "an admitted request has no state");
    }
    return true;
  }

  void grow(std::uint64_t request, std::int64_t pages) override {
    Tenant& tenant = tenants_.at(request);
    const std::size_t held = tenant.pages.size();
    const auto more = pages - static_cast<std::int64_t>(held);
    if (more <= 0) return;
    CHECK(more <= tenant.promised_pages, "{} pages were not promised", more);
    tenant.pages.resize(static_cast<std::size_t>(pages));
    CHECK(arena_->allocate_pages(std::span(tenant.pages).subspan(held)),
          "an admitted request has no page");
    tenant.promised_pages -= more;
    promised_pages_ -= more;
  }

  void leave(std::uint64_t request) override {
    const auto at = tenants_.find(request);
    promised_pages_ -= at->second.promised_pages;
    tenants_.erase(at);
  }

  std::int64_t take_moved_bytes() override {
    arena_->take_moves(moves_);
    std::int64_t bytes = 0;
    for (const Move& move : moves_) bytes += move.bytes;
    return bytes;
  }

 private:
  struct Tenant {
    std::vector<StateHandle> states;
    std::vector<PageHandle> pages;
    std::int64_t promised_pages = 0;
  };

  std::unique_ptr<Arena> arena_;
  std::map<std::uint64_t, Tenant> tenants_;
  std::int64_t promised_pages_ = 0;
  std::vector<Move> moves_;
};

class SplitMemory final : public FlipMemory {
 public:
  SplitMemory(const ArenaGeometry& geometry, std::int64_t states)
      : free_{.states = states,
              .pages = (geometry.usable_bytes() - states * geometry.state_bytes) /
                       geometry.page_bytes} {}

  bool admit(std::uint64_t request, EntryCounts need) override {
    if (need.states > free_.states || need.pages > free_.pages) return false;
    free_.states -= need.states;
    free_.pages -= need.pages;
    tenants_[request] = need;
    return true;
  }
  void grow(std::uint64_t, std::int64_t) override {}
  void leave(std::uint64_t request) override {
    const auto at = tenants_.find(request);
    free_.states += at->second.states;
    free_.pages += at->second.pages;
    tenants_.erase(at);
  }
  std::int64_t take_moved_bytes() override { return 0; }

 private:
  EntryCounts free_;
  std::map<std::uint64_t, EntryCounts> tenants_;
};

}  // namespace

std::unique_ptr<FlipMemory> make_joint_memory(const ArenaGeometry& geometry) {
  return std::make_unique<JointMemory>(geometry);
}

std::unique_ptr<FlipMemory> make_split_memory(const ArenaGeometry& geometry, std::int64_t states) {
  return std::make_unique<SplitMemory>(geometry, states);
}

}  // namespace tandem
