#include "train/trainable_weights.h"

#include <algorithm>
#include <cmath>

#include "train/ops/linear.h"
#include "train/weight_walk.h"

namespace tandem::train {
namespace {

WeightSlot::Kind vector_kind(const std::string& path) {
  if (path.ends_with(".A_log")) return WeightSlot::Kind::kLogVector;
  if (path.ends_with("e_score_correction_bias")) return WeightSlot::Kind::kFixed;
  return WeightSlot::Kind::kVector;
}

}  // namespace

template <typename T>
TrainableWeights<T>::TrainableWeights(const ModelSpec& spec, ModelWeights weights)
    : tied_(spec.tied_embeddings), weights_(std::make_unique<ModelWeights>(std::move(weights))) {
  std::vector<WeightSlot> vector_slots;
  std::int64_t size = 0;
  walk_weights(
      spec, *weights_,
      [&](const std::string& path, WeightMatrix& w) {
        if (tied_ && &w == &weights_->head) return;
        slots_.push_back({path, WeightSlot::Kind::kMatrix, size, w.outputs, w.inputs});
        matrices_.push_back(&w);
        size += w.outputs * w.inputs;
      },
      [&](const std::string& path, WeightVector& w) {
        vector_slots.push_back(
            {path, vector_kind(path), 0, 1, static_cast<std::int64_t>(w.size())});
        vectors_.push_back(&w);
      });
  matrix_values_ = static_cast<std::size_t>(size);
  for (WeightSlot& slot : vector_slots) {
    slot.offset = size;
    size += slot.columns;
    slots_.push_back(std::move(slot));
  }
  values_.resize(static_cast<std::size_t>(size));
  gradients_.resize(values_.size());

  ThreadTeam alone(1);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const WeightSlot& slot = slots_[i];
    float* to = values_.data() + slot.offset;
    if (slot.kind == WeightSlot::Kind::kMatrix) {
      decode_weight<float>(*matrices_[i], {to, slot.rows, slot.columns, slot.columns}, alone);
      *matrices_[i] = {
          .dtype = DType::kF32, .data = to, .outputs = slot.rows, .inputs = slot.columns};
      continue;
    }
    const WeightVector& from = *vectors_[i - matrices_.size()];
    std::copy_n(from.data(), from.size(), to);
    if (slot.kind == WeightSlot::Kind::kLogVector) {
      std::transform(to, to + slot.columns, to, [](float rate) { return std::log(rate); });
    }
  }
  refresh();
}

template <typename T>
void TrainableWeights<T>::clear_gradients() {
  std::fill(gradients_.begin(), gradients_.end(), T(0));
}

template <typename T>
void TrainableWeights<T>::refresh() {
  for (std::size_t i = 0; i < vectors_.size(); ++i) {
    const WeightSlot& slot = slots_[matrices_.size() + i];
    const float* from = values_.data() + slot.offset;
    float* to = vectors_[i]->data();
    if (slot.kind == WeightSlot::Kind::kLogVector) {
      std::transform(from, from + slot.columns, to,
                     [](float log_rate) { return std::exp(log_rate); });
    } else {
      std::copy_n(from, slot.columns, to);
    }
  }
  if (tied_) weights_->head = weights_->embedding;
}

template <typename T>
void TrainableWeights<T>::want_all(TrainedWeights<T>& trained) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const WeightSlot& slot = slots_[i];
    T* gradient = gradients_.data() + slot.offset;
    if (slot.kind == WeightSlot::Kind::kMatrix) {
      trained.want(*matrices_[i], {gradient, slot.rows, slot.columns, slot.columns});
    } else if (slot.kind != WeightSlot::Kind::kFixed) {
      trained.want(*vectors_[i - matrices_.size()], gradient);
    }
  }
  if (tied_) trained.want(weights_->head, *trained.gradient(weights_->embedding));
}

template class TrainableWeights<float>;
template class TrainableWeights<double>;

}  // namespace tandem::train
