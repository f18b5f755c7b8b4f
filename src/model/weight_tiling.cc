#include "model/weight_tiling.h"

#include <algorithm>
#include <cstring>

#include "base/byte_size.h"
#include "base/log.h"
#include "model/weight_table.h"
#include "tensor/thread_team.h"
#include "tensor/weight_tiles.h"

namespace tandem {
namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

struct Move {
  WeightMatrix* weight;
  bool tile;
  TiledBytes bytes;
  std::int64_t at = 0;  // in the buffer; scales stand behind the elements
};

// The matrices to move.
class Collector final : public WeightVisitor {
 public:
  Collector(const ModelWeights& weights, bool tile_experts)
      : embedding_(&weights.embedding), tile_experts_(tile_experts) {}

  void matrix(const std::string& name, std::int64_t, std::int64_t, WeightMatrix& to) override {
    if (&to == embedding_) return;
    // Attention reads W_UK by columns.
    add(to, !name.ends_with(".kv_b_proj.weight"));
  }
  void expert(const std::string&, std::int64_t, std::int64_t, WeightMatrix& to) override {
    add(to, tile_experts_);
  }
  void vector(const std::string&, std::int64_t, WeightVector&) override {}
  void head_rate(const std::string&, const KdaSpec&, WeightVector&) override {}
  void conv(const std::string&, std::int64_t, const KdaSpec&, WeightVector&) override {}
  void mix(const std::string&, std::int64_t, WeightVector&) override {}

  std::vector<Move> moves;

 private:
  void add(WeightMatrix& weight, bool tile) {
    Move move{&weight, tile && can_tile(weight), {}};
    move.bytes = move.tile ? tiled_bytes(weight) : TiledBytes{weight_bytes(weight), 0};
    moves.push_back(move);
  }

  const WeightMatrix* embedding_;
  const bool tile_experts_;
};

void copy_rows(WeightMatrix& weight, std::byte* to) {
  const std::int64_t scale_bytes =
      weight.scale == nullptr ? 0 : weight_bytes(weight) - weight.outputs * (weight.inputs / 2);
  const std::int64_t data_bytes = weight_bytes(weight) - scale_bytes;
  std::memcpy(to, weight.data, static_cast<std::size_t>(data_bytes));
  weight.data = to;
  if (scale_bytes == 0) return;
  std::memcpy(to + data_bytes, weight.scale, static_cast<std::size_t>(scale_bytes));
  weight.scale = reinterpret_cast<const std::uint8_t*>(to + data_bytes);
}

void move(const Move& move, std::byte* buffer) {
  std::byte* to = buffer + move.at;
  if (!move.tile) return copy_rows(*move.weight, to);
  *move.weight =
      tile_weight(*move.weight, to, reinterpret_cast<std::uint8_t*>(to + move.bytes.data));
}

}  // namespace

Result<void> tile_weights(const ModelSpec& spec, bool tile_experts, std::int64_t limit_bytes,
                          ModelWeights& weights) {
  Collector collector(weights, tile_experts);
  visit_weights(spec, weights, collector);
  std::int64_t total = 0;
  for (Move& move : collector.moves) {
    move.at = total;
    total += aligned(move.bytes.data + move.bytes.scale);
  }
  if (total > limit_bytes) {
    log_info("weights stay in their files: {} do not fit {} of memory", byte_text(total),
             byte_text(limit_bytes));
    return {};
  }
  weights.tiles = TRY(HugeBuffer::allocate(static_cast<std::size_t>(total)));
  ThreadTeam team(default_thread_count());
  team.parallel_for(static_cast<std::int64_t>(collector.moves.size()), 1,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t i = begin; i < end; ++i) {
                        move(collector.moves[static_cast<std::size_t>(i)], weights.tiles.data());
                      }
                    });
  std::erase_if(weights.storage, [&](const AlignedBuffer<float>& copy) {
    return copy.data() != weights.embedding.data;
  });
  weights.checkpoint.release_pages();
  return {};
}

}  // namespace tandem
