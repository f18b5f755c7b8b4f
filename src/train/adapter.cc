#include "train/adapter.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "train/weight_walk.h"

namespace tandem::train {
namespace {

constexpr std::string_view kAllLinear = "all-linear";

bool is_target(std::string_view target, std::string_view path) {
  if (target != kAllLinear) return names_module(target, path);
  return !path.ends_with("lm_head") && !path.ends_with("block_sparse_moe.gate");
}

// FNV-1a, to give every tensor random numbers of its own.
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
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

float lora_scale(float alpha, std::int64_t rank, bool rank_stabilised) {
  const auto r = static_cast<float>(rank);
  return rank_stabilised ? alpha / std::sqrt(r) : alpha / r;
}

bool names_module(std::string_view name, std::string_view path) {
  if (!path.ends_with(name)) return false;
  return path.size() == name.size() || path[path.size() - name.size() - 1] == '.';
}

std::vector<Projection> adaptable_projections(const ModelSpec& spec, const ModelWeights& weights) {
  std::vector<Projection> all;
  const auto on_matrix = [&](const std::string& path, const WeightMatrix& weight) {
    if (!path.ends_with("embed_tokens")) all.push_back({path, &weight});
  };
  walk_weights(spec, weights, on_matrix, [](const std::string&, const WeightVector&) {});
  return all;
}

template <typename T>
LoraAdapter<T> LoraAdapter<T>::with_modules(LoraConfig config, std::vector<LoraModule> modules) {
  LoraAdapter adapter;
  adapter.config_ = std::move(config);
  adapter.modules_ = std::move(modules);
  std::int64_t size = 0;
  for (LoraModule& m : adapter.modules_) {
    m.a_offset = size;
    m.b_offset = size + m.rank * m.inputs();
    size += m.elements();
  }
  adapter.values_.assign(static_cast<std::size_t>(size), T(0));
  adapter.gradients_.assign(static_cast<std::size_t>(size), T(0));
  return adapter;
}

template <typename T>
Result<LoraAdapter<T>> LoraAdapter<T>::create(const ModelSpec& spec, const ModelWeights& weights,
                                              const LoraConfig& config, std::uint64_t seed) {
  TRY(check_config(config));
  std::vector<LoraModule> modules;
  std::vector<bool> used(config.targets.size(), false);
  for (Projection& projection : adaptable_projections(spec, weights)) {
    bool wanted = false;
    for (std::size_t i = 0; i < config.targets.size(); ++i) {
      const bool hit = is_target(config.targets[i], projection.path);
      used[i] = used[i] || hit;
      wanted = wanted || hit;
    }
    if (!wanted) continue;
    modules.push_back({.projection = std::move(projection),
                       .rank = config.rank,
                       .alpha = config.alpha,
                       .scale = lora_scale(config.alpha, config.rank, config.rank_stabilised)});
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    return invalid("lora target '{}': no projection of this model has that name",
                   config.targets[i]);
  }
  LoraAdapter adapter = with_modules(config, std::move(modules));
  for (const LoraModule& m : adapter.modules_) {
    const std::uint64_t key = seed ^ hash(m.path());
    const double bound = std::sqrt(6.0 / static_cast<double>(m.inputs() + m.rank));
    const Rows<T> a = adapter.a(m);
    for (std::int64_t i = 0; i < m.rank * m.inputs(); ++i) {
      const double u = philox_uniform(key, static_cast<std::uint64_t>(i));
      a.data[i] = static_cast<T>(static_cast<float>(bound * (2 * u - 1)));
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
    trained.attach(*m.projection.weight, {.a = a(m),
                                          .b = b(m),
                                          .da = view(gradients_, m.a_offset, m.rank, m.inputs()),
                                          .db = view(gradients_, m.b_offset, m.outputs(), m.rank),
                                          .scale = static_cast<T>(m.scale)});
  }
}

template class LoraAdapter<float>;
template class LoraAdapter<double>;

}  // namespace tandem::train
