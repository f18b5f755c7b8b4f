#include "speculate/acceptance.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

// p and q of a block by row and token.
class Rows {
 public:
  explicit Rows(const VerifiedBlock& block)
      : block_(block), vocab_(static_cast<std::size_t>(block.vocab)) {
    CHECK(block.vocab > 0 && block.target.size() % vocab_ == 0, "{} target entries for {} tokens",
          block.target.size(), block.vocab);
    const std::size_t drafts = block.drafts.size();
    const std::size_t rows = block.target.size() / vocab_;
    CHECK(rows >= 1 && (rows == drafts || rows == drafts + 1), "{} rows for {} drafts", rows,
          drafts);
    CHECK(block.proposal.empty() || block.proposal.size() == drafts * vocab_,
          "{} proposal entries for {} drafts", block.proposal.size(), drafts);
    for (const TokenId draft : block.drafts) {
      CHECK(draft >= 0 && draft < block.vocab, "draft {} of {} tokens", draft, block.vocab);
    }
  }

  std::size_t drafts() const { return block_.drafts.size(); }
  bool has(std::size_t row) const { return (row + 1) * vocab_ <= block_.target.size(); }

  std::span<const double> target(std::size_t row) const {
    return block_.target.subspan(row * vocab_, vocab_);
  }
  std::size_t draft(std::size_t row) const { return static_cast<std::size_t>(block_.drafts[row]); }

  double ratio(std::size_t row) const {  // p / q of the draft
    return target(row)[draft(row)] / (chosen(row) ? 1.0 : proposal(row)[draft(row)]);
  }

  // max(scale * p - q, 0) over the vocabulary of a row that has a draft, to `residual`; returns the
  // sum.
  double residual(std::size_t row, double scale, std::vector<double>& residual) const {
    const std::span<const double> p = target(row);
    const bool one_hot = chosen(row);
    residual.resize(vocab_);
    double sum = 0;
    for (std::size_t x = 0; x < vocab_; ++x) {
      const double q = one_hot ? (x == draft(row) ? 1.0 : 0.0) : proposal(row)[x];
      const double left = scale * p[x] - q;
      residual[x] = left > 0 ? left : 0.0;
      sum += residual[x];
    }
    return sum;
  }

 private:
  std::span<const double> proposal(std::size_t row) const {
    return block_.proposal.subspan(row * vocab_, vocab_);
  }
  bool chosen(std::size_t row) const {
    return block_.proposal.empty() || !(proposal(row)[draft(row)] > 0);
  }

  const VerifiedBlock& block_;
  std::size_t vocab_;
};

// The token after `accepted` drafts: from p after the last one, from what p has beyond q elsewhere.
Acceptance finish(const Rows& rows, std::size_t accepted, double scale, Chance& chance) {
  Acceptance result = {.drafts = static_cast<std::int64_t>(accepted)};
  if (!rows.has(accepted)) return result;
  std::vector<double> residual;
  // Rounding may leave nothing of a residual where p and q are all but equal.
  const bool from_target =
      accepted == rows.drafts() || !(rows.residual(accepted, scale, residual) > 0);
  result.bonus = static_cast<TokenId>(
      chance.pick(from_target ? rows.target(accepted) : std::span<const double>(residual)));
  return result;
}

}  // namespace

Acceptance accept_token_wise(const VerifiedBlock& block, Chance& chance) {
  const Rows rows(block);
  std::size_t accepted = 0;
  while (accepted < rows.drafts() &&
         chance.happens(static_cast<std::int64_t>(accepted), std::min(1.0, rows.ratio(accepted)))) {
    ++accepted;
  }
  return finish(rows, accepted, 1, chance);
}

Acceptance accept_block(const VerifiedBlock& block, Chance& chance) {
  const Rows rows(block);
  const std::size_t n = rows.drafts();
  // reach[i]: how far p of the first i drafts keeps up with q; the path's h in the paper.
  std::vector<double> reach(n + 1, 1);
  for (std::size_t i = 0; i < n; ++i) reach[i + 1] = std::min(1.0, reach[i] * rows.ratio(i));
  std::vector<double> residual;
  std::size_t accepted = n;
  for (; accepted > 0; --accepted) {
    double probability = reach[n];
    if (accepted < n) {
      const double mass = rows.residual(accepted, reach[accepted], residual);
      const double whole = mass + 1 - reach[accepted];
      probability = whole > 0 ? mass / whole : 1.0;
    }
    // The longest prefix whose coin falls well: a draft that failed alone may stand in a longer
    // one.
    if (chance.happens(static_cast<std::int64_t>(accepted), probability)) break;
  }
  return finish(rows, accepted, reach[accepted], chance);
}

Result<std::vector<SampledToken>> accept_matching(std::span<const TokenId> drafts,
                                                  std::int64_t rows, const DrawRow& draw) {
  const auto count = static_cast<std::int64_t>(drafts.size());
  CHECK(rows >= 1 && (rows == count || rows == count + 1), "{} rows for {} drafts", rows, count);
  std::vector<SampledToken> tokens;
  for (std::int64_t row = 0; row < rows; ++row) {
    Result<DrawnToken> drawn = draw(row);
    if (!drawn) return fail(std::move(drawn).error());
    tokens.push_back(std::move(drawn->token));
    if (drawn->ends || row == count || tokens.back().id != drafts[static_cast<std::size_t>(row)]) {
      break;
    }
  }
  return tokens;
}

}  // namespace tandem
