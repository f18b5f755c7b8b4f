#include "text/grammar/stack_machine.h"

#include <algorithm>
#include <unordered_set>

namespace tandem::grammar {
namespace {

std::uint64_t join(std::int32_t high, std::int32_t low) {
  return std::uint64_t{static_cast<std::uint32_t>(high)} << 32 | static_cast<std::uint32_t>(low);
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 32);
}

}  // namespace

StackMachine::StackMachine(const Pushdown& pushdown) : pushdown_(&pushdown) {
  sets_.emplace_back();
}

SetId StackMachine::start() { return close({{pushdown_->start(), kBottom}}); }

SetId StackMachine::only(StateId state) { return intern({{state, kBottom}}, false); }

SetId StackMachine::run(SetId set, std::string_view bytes) {
  for (const char byte : bytes) {
    if (set == kDead) break;
    set = step(set, static_cast<std::uint8_t>(byte));
  }
  return set;
}

SetId StackMachine::compute_step(SetId set, std::uint8_t byte) {
  std::vector<Config> reached;
  for (const Config& config : sets_[static_cast<std::size_t>(set)].configs) {
    for (const auto& edge : pushdown_->edges(config.state)) {
      if (byte > edge.bytes.last) continue;
      if (byte >= edge.bytes.first) reached.push_back({edge.target, config.stack});
      break;
    }
  }
  const SetId next = reached.empty() ? kDead : close(std::move(reached));
  auto& table = sets_[static_cast<std::size_t>(set)].next;
  if (!table) {
    table = std::make_unique<std::array<SetId, 256>>();
    table->fill(kUnknown);
  }
  (*table)[byte] = next;
  return next;
}

SetId StackMachine::close(std::vector<Config> work) {
  std::vector<Config> readers;
  std::unordered_set<std::uint64_t> seen;
  bool at_end = false;
  // In the order of discovery, so that what a limit drops is the same every time.
  for (std::size_t i = 0; i < work.size() && readers.size() < kMaxConfigs; ++i) {
    const Config config = work[i];
    if (!seen.insert(join(config.state, config.stack)).second) continue;
    if (!pushdown_->edges(config.state).empty()) readers.push_back(config);
    for (const Pushdown::Call& call : pushdown_->calls(config.state)) {
      work.push_back({call.callee, call.tail ? config.stack : push(call.resume, config.stack)});
    }
    if (!pushdown_->accepting(config.state)) continue;
    if (config.stack == kBottom) {
      at_end = true;
    } else {
      const Frame frame = frames_[static_cast<std::size_t>(config.stack)];
      work.push_back({frame.resume, frame.below});
    }
  }
  return intern(std::move(readers), at_end);
}

SetId StackMachine::intern(std::vector<Config> configs, bool at_end) {
  std::sort(configs.begin(), configs.end(), [](const Config& a, const Config& b) {
    return join(a.state, a.stack) < join(b.state, b.stack);
  });
  if (configs.empty() && !at_end) return kDead;
  std::uint64_t hash = at_end ? 1 : 2;
  for (const Config& config : configs) hash = mix(hash, join(config.state, config.stack));
  const auto [begin, end] = set_ids_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const Set& known = sets_[static_cast<std::size_t>(it->second)];
    if (known.at_end == at_end && known.configs == configs) return it->second;
  }
  const auto id = static_cast<SetId>(sets_.size());
  sets_.push_back({.configs = std::move(configs), .at_end = at_end});
  set_ids_.emplace(hash, id);
  return id;
}

StackId StackMachine::push(StateId resume, StackId below) {
  const auto next = static_cast<StackId>(frames_.size());
  const auto [entry, is_new] = frame_ids_.emplace(join(resume, below), next);
  if (is_new) frames_.push_back({resume, below});
  return entry->second;
}

StackMachine StackMachine::compacted(std::span<SetId> kept) const {
  StackMachine out(*pushdown_);
  std::unordered_map<StackId, StackId> moved{{kBottom, kBottom}};
  const auto move_stack = [&](StackId stack) {
    std::vector<StackId> path;  // frames not moved yet, top first
    for (StackId at = stack; !moved.contains(at);
         at = frames_[static_cast<std::size_t>(at)].below) {
      path.push_back(at);
    }
    for (auto it = path.rbegin(); it != path.rend(); ++it) {
      const Frame& frame = frames_[static_cast<std::size_t>(*it)];
      moved[*it] = out.push(frame.resume, moved.at(frame.below));
    }
    return moved.at(stack);
  };
  for (SetId& id : kept) {
    if (id == kDead) continue;
    const Set& set = sets_[static_cast<std::size_t>(id)];
    std::vector<Config> configs;
    for (const Config& config : set.configs) {
      configs.push_back({config.state, move_stack(config.stack)});
    }
    id = out.intern(std::move(configs), set.at_end);
  }
  return out;
}

}  // namespace tandem::grammar
