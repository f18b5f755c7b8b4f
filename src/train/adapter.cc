#include "train/adapter.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/philox.h"
#include "train/weight_walk.h"

namespace tandem::train {
namespace {

constexpr std::string_view kAllLinear = "all-linear";

bool matches(std::string_view path, std::string_view target) {
  return path == target || (path.size() > target.size() && path.ends_with(target) &&
                            path[path.size() - target.size() - 1] == '.');
}

// FNV-1a, to give every tensor random numbers of its own.
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

// Every projection that can have an adapter.
std::vector<LoraModule> projections(const ModelSpec& spec, const ModelWeights& weights) {
  std::vector<LoraModule> all;
  const auto on_matrix = [&](const std::string& path, const WeightMatrix& weight) {
    if (path.ends_with("embed_tokens")) return;
    all.push_back({path, &weight, weight.inputs, weight.outputs});
  };
  walk_weights(spec, weights, on_matrix, [](const std::string&, const WeightVector&) {});
  return all;
}

Result<void> check_config(const LoraConfig& config) {
  if (config.rank < 1) return invalid("lora rank: expected at least 1, got {}", config.rank);
  if (!(config.alpha > 0) || !std::isfinite(config.alpha)) {
    return invalid("lora alpha: expected a number above 0, got {}", config.alpha);
  }
  if (config.targets.empty()) return invalid("lora targets: expected names of projections");
  return {};
}

}  // namespace

float LoraConfig::scale() const {
  const auto r = static_cast<float>(rank);
  return rank_stabilised ? alpha / std::sqrt(r) : alpha / r;
}

template <typename T>
Result<LoraAdapter<T>> LoraAdapter<T>::create(const ModelSpec& spec, const ModelWeights& weights,
                                              const LoraConfig& config, std::uint64_t seed) {
  TRY(check_config(config));
  LoraAdapter adapter;
  adapter.config_ = config;
  std::vector<bool> used(config.targets.size(), false);
  std::int64_t size = 0;
  for (LoraModule& module : projections(spec, weights)) {
    bool wanted = false;
    for (std::size_t i = 0; i < config.targets.size(); ++i) {
      const std::string& target = config.targets[i];
      const bool hit =
          target == kAllLinear ? !module.path.ends_with("lm_head") : matches(module.path, target);
      used[i] = used[i] || hit;
      wanted = wanted || hit;
    }
    if (!wanted) continue;
    module.a_offset = size;
    module.b_offset = size + config.rank * module.inputs;
    size = module.b_offset + module.outputs * config.rank;
    adapter.modules_.push_back(std::move(module));
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) {
      return invalid("lora target '{}': no projection of this model has that name",
                     config.targets[i]);
    }
  }
  adapter.values_.assign(static_cast<std::size_t>(size), T(0));
  adapter.gradients_.assign(static_cast<std::size_t>(size), T(0));
  for (const LoraModule& module : adapter.modules_) {
    const std::uint64_t key = seed ^ hash(module.path);
    const double bound = std::sqrt(6.0 / static_cast<double>(module.inputs + config.rank));
    for (std::int64_t i = 0; i < config.rank * module.inputs; ++i) {
      const double u = philox_uniform(key, static_cast<std::uint64_t>(i));
      adapter.values_[static_cast<std::size_t>(module.a_offset + i)] =
          static_cast<T>(static_cast<float>(bound * (2 * u - 1)));
    }
  }
  return adapter;
}

template <typename T>
void LoraAdapter<T>::clear_gradients() {
  std::fill(gradients_.begin(), gradients_.end(), T(0));
}

template <typename T>
void LoraAdapter<T>::attach_to(TrainedWeights<T>& trained) {
  for (const LoraModule& m : modules_) {
    trained.attach(*m.weight, {.a = a(m),
                               .b = b(m),
                               .da = rows(gradients_, m.a_offset, config_.rank, m.inputs),
                               .db = rows(gradients_, m.b_offset, m.outputs, config_.rank),
                               .scale = static_cast<T>(config_.scale())});
  }
}

template class LoraAdapter<float>;
template class LoraAdapter<double>;

}  // namespace tandem::train
