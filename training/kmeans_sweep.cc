#include "training/kmeans_sweep.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "training/kmeans_fixed_point.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_rows.h"

namespace coterie {
namespace {

constexpr double kLeastGain = 0x1p-40;
constexpr int64_t kQuickPasses = 50;

class Sweeper {
 public:
  Sweeper(const KMeansRows& rows, const KMeansScale& scale,
          absl::Span<int32_t> labels, absl::Span<int32_t> others,
          KMeansToken& token)
      : rows_(rows),
        scale_(scale),
        adder_(scale, rows.size()),
        labels_(labels),
        others_(others),
        token_(token),
        d_(rows.dimension()),
        k_(static_cast<int32_t>(token.weights.size())),
        means_(token.sums.size()),
        masses_(token.weights.size()) {
    for (int32_t j = 0; j < k_; ++j) UpdateMean(j);
  }

  // Both end early once as many rows as there are have stayed.
  void Optimal() {
    for (int64_t i = 0; i < rows_.size(); ++i) {
      ++token_.unmoved;
      TryAll(i);
      if (token_.unmoved == token_.rows) return;
    }
    token_.offset += rows_.size();
  }

  void Quick() {
    for (int64_t i = 0; i < rows_.size(); ++i) {
      ++token_.quiet;
      ++token_.step;
      TryOther(i);
      if (token_.quiet == token_.rows) return;
    }
    token_.offset += rows_.size();
  }

 private:
  size_t at(int64_t i) const { return static_cast<size_t>(i); }

  void UpdateMean(int32_t j) {
    masses_[at(j)] = FromFixed64(token_.weights[at(j)], scale_.weight_exponent);
    if (token_.weights[at(j)] == 0) return;
    for (int64_t i = 0; i < d_; ++i) {
      means_[at(j * d_ + i)] = FromFixed64(token_.sums[at(j * d_ + i)],
                                           scale_.sum_exponents[at(i)]) /
                               masses_[at(j)];
    }
  }

  // Eight lanes, then a fixed tree.
  double SquaredDistance(int64_t row, int32_t j) const {
    const float* x = rows_.data(row);
    const double* c = means_.data() + j * d_;
    double lane[8] = {};
    int64_t i = 0;
    for (; i + 8 <= d_; i += 8) {
      for (int64_t l = 0; l < 8; ++l) {
        const double t = static_cast<double>(x[i + l]) - c[i + l];
        lane[l] += t * t;
      }
    }
    for (int64_t l = 0; i < d_; ++i, ++l) {
      const double t = static_cast<double>(x[i]) - c[i];
      lane[l] += t * t;
    }
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
  }

  bool Alone(int64_t row, int32_t from) const {
    return token_.weights[at(from)] <= adder_.WeightUnits(rows_.weight(row));
  }
  // What leaving saves and what joining costs, over w.
  double Saved(int64_t row, int32_t from) const {
    const double mass = masses_[at(from)];
    return mass / (mass - rows_.weight(row)) * SquaredDistance(row, from);
  }
  double Cost(int64_t row, int32_t to) const {
    const double mass = masses_[at(to)];
    return mass / (mass + rows_.weight(row)) * SquaredDistance(row, to);
  }

  bool Stuck(int64_t row, int32_t from) const {
    return !(rows_.weight(row) > 0) || Alone(row, from);
  }

  void TryAll(int64_t row) {
    const int32_t from = labels_[at(row)];
    if (Stuck(row, from)) return;
    const int64_t position = token_.offset + row;
    const double saved = Saved(row, from);
    int32_t to = others_[at(row)];
    double cost = token_.weights[at(to)] > 0 && to != from
                      ? Cost(row, to)
                      : std::numeric_limits<double>::infinity();
    const int32_t tried = to;
    for (int32_t j = 0; j < k_; ++j) {
      if (j == from || j == tried || token_.weights[at(j)] == 0) continue;
      if (position >= token_.live[at(from)] && position >= token_.live[at(j)]) {
        continue;
      }
      const double one = Cost(row, j);
      if (one < cost) {
        cost = one;
        to = j;
      }
    }
    others_[at(row)] = to;
    if (!(saved - cost > kLeastGain * saved)) return;
    token_.unmoved = 0;
    token_.live[at(from)] = token_.rows + position;
    token_.live[at(to)] = token_.rows + position;
    token_.changed[at(from)] = position + 1;
    token_.changed[at(to)] = position + 1;
    Move(row, from, to);
  }

  void TryOther(int64_t row) {
    const int32_t from = labels_[at(row)];
    const int32_t to = others_[at(row)];
    if (to == from || token_.weights[at(to)] == 0 || Stuck(row, from)) return;
    // Nothing has changed since this pair was last compared.
    if (token_.step >= token_.changed[at(from)] &&
        token_.step >= token_.changed[at(to)]) {
      return;
    }
    const double saved = Saved(row, from);
    if (!(saved - Cost(row, to) > kLeastGain * saved)) return;
    token_.quiet = 0;
    token_.unmoved = 0;
    token_.quick[at(from)] = 1;
    token_.quick[at(to)] = 1;
    token_.changed[at(from)] = token_.step + token_.rows;
    token_.changed[at(to)] = token_.step + token_.rows;
    Move(row, from, to);
  }

  void Move(int64_t row, int32_t from, int32_t to) {
    const int64_t units = adder_.WeightUnits(rows_.weight(row));
    adder_.Subtract(rows_, row, token_.sums.data() + from * d_);
    adder_.Add(rows_, row, token_.sums.data() + to * d_);
    token_.weights[at(from)] -= units;
    token_.weights[at(to)] += units;
    UpdateMean(from);
    UpdateMean(to);
    labels_[at(row)] = to;
    others_[at(row)] = from;
    ++token_.moves;
  }

  const KMeansRows& rows_;
  const KMeansScale& scale_;
  const FixedPointAdder adder_;
  const absl::Span<int32_t> labels_;
  const absl::Span<int32_t> others_;
  KMeansToken& token_;
  const int64_t d_;
  const int32_t k_;
  std::vector<double> means_;
  std::vector<double> masses_;
};

int64_t Clusters(const KMeansToken& token) {
  return std::count_if(token.weights.begin(), token.weights.end(),
                       [](int64_t w) { return w > 0; });
}

void StartQuick(KMeansToken& token) {
  std::fill(token.quick.begin(), token.quick.end(), uint8_t{0});
  for (int64_t& live : token.live) live -= token.rows;
  token.in_quick = true;
  token.quiet = 0;
  token.step = 0;
}

void StartOptimal(KMeansToken& token) {
  for (size_t j = 0; j < token.live.size(); ++j) {
    token.changed[j] = 0;
    if (token.quick[j] != 0) token.live[j] = token.rows;
  }
  token.in_quick = false;
}

}  // namespace

KMeansToken StartSweep(std::vector<int64_t> sums, std::vector<int64_t> weights,
                       int64_t rows) {
  KMeansToken token;
  token.sums = std::move(sums);
  token.weights = std::move(weights);
  token.live.assign(token.weights.size(), rows);
  token.changed.assign(token.weights.size(), -1);
  token.quick.assign(token.weights.size(), 0);
  token.rows = rows;
  return token;
}

SweepNext NextSweep(int32_t shard, int32_t shards, KMeansToken& token) {
  if (Clusters(token) < 2) return SweepNext::kDone;
  if (!token.in_quick) {
    if (token.unmoved >= token.rows) return SweepNext::kDone;
    if (shard + 1 < shards) return SweepNext::kNextShard;
    StartQuick(token);
    token.offset = 0;
    return SweepNext::kFirstShard;
  }
  const bool over =
      token.quiet >= token.rows || token.step >= kQuickPasses * token.rows;
  if (!over && shard + 1 < shards) return SweepNext::kNextShard;
  token.offset = 0;
  if (over) {
    // With two clusters the quick stage has tried everything.
    if (Clusters(token) == 2 && token.quiet >= token.rows) {
      return SweepNext::kDone;
    }
    StartOptimal(token);
  }
  return SweepNext::kFirstShard;
}

void SweepRows(const KMeansRows& rows, const KMeansScale& scale,
               absl::Span<int32_t> labels, absl::Span<int32_t> others,
               KMeansToken& token) {
  Sweeper sweeper(rows, scale, labels, others, token);
  if (token.in_quick) {
    sweeper.Quick();
  } else {
    sweeper.Optimal();
  }
}

}  // namespace coterie
