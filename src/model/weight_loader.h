// Binds the tensors of a checkpoint to the weights of a model; private to load_weights.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "model/checkpoint.h"
#include "model/weight_table.h"

namespace tandem {

// The first error sticks, and later visits do nothing. Matrices that stay in the files are never
// read here, so that loading touches no more pages than it must.
class WeightLoader final : public WeightVisitor {
 public:
  // Borrows the checkpoint; copies of matrices go to `storage`.
  WeightLoader(const Checkpoint& checkpoint, std::vector<AlignedBuffer<float>>& storage,
               const LoadOptions& options)
      : checkpoint_(checkpoint), storage_(storage), options_(options) {}

  void matrix(const std::string& name, std::int64_t outputs, std::int64_t inputs,
              WeightMatrix& to) override;
  void expert(const std::string& stem, std::int64_t outputs, std::int64_t inputs,
              WeightMatrix& to) override;
  void vector(const std::string& name, std::int64_t size, WeightVector& to) override;
  void head_rate(const std::string& name, const KdaSpec& spec, WeightVector& to) override;
  void conv(const std::string& name, std::int64_t part, const KdaSpec& spec,
            WeightVector& to) override;
  void mix(const std::string& stem, std::int64_t size, WeightVector& to) override;

  // After the visit: the first error, if any, or a tensor of the text model that nothing has read.
  Result<void> finish();

 private:
  using Shape = std::vector<std::int64_t>;

  template <typename... Args>
  void fail_with(StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
    if (!error_) error_ = Status{code, fmt::format(format, std::forward<Args>(args)...)};
  }
  // The tensor, if it exists in one of the shapes and dtypes; otherwise nullptr and an error.
  const TensorEntry* take(const std::string& name, std::span<const Shape> shapes,
                          std::span<const DType> dtypes);
  const TensorEntry* find(const std::string& name, std::string_view shape);
  bool check_dtype(const std::string& name, const TensorEntry& entry,
                   std::span<const DType> dtypes);
  // All elements as fp32, each finite.
  std::optional<WeightVector> values(const std::string& name, const TensorEntry& entry);
  std::string file(const TensorEntry& entry) const { return checkpoint_.file_of(entry).string(); }
  void report_progress();

  const Checkpoint& checkpoint_;
  std::vector<AlignedBuffer<float>>& storage_;
  const LoadOptions& options_;
  std::optional<Status> error_;
  std::unordered_set<const TensorEntry*> taken_;
  double reported_ = 0;
};

}  // namespace tandem
