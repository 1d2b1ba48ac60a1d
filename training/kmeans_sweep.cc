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

// Means of the clusters of a token, and what moves save and cost.
class Clusters {
 public:
  Clusters(const KMeansRows& rows, const KMeansScale& scale,
           const KMeansToken& token)
      : rows_(rows),
        scale_(scale),
        adder_(scale, rows.size()),
        token_(token),
        d_(rows.dimension()),
        means_(token.sums.size()),
        masses_(token.weights.size()) {
    for (int32_t j = 0; j < size(); ++j) Update(j);
  }

  int32_t size() const { return static_cast<int32_t>(token_.weights.size()); }
  const FixedPointAdder& adder() const { return adder_; }
  bool used(int32_t j) const {
    return token_.weights[static_cast<size_t>(j)] > 0;
  }

  // After a change of the token.
  void Update(int32_t j) {
    const size_t at = static_cast<size_t>(j);
    masses_[at] = FromFixed64(token_.weights[at], scale_.weight_exponent);
    if (token_.weights[at] == 0) return;
    const size_t d = static_cast<size_t>(d_);
    for (size_t i = 0; i < d; ++i) {
      means_[at * d + i] =
          FromFixed64(token_.sums[at * d + i], scale_.sum_exponents[i]) /
          masses_[at];
    }
  }

  // Without weight, or the last row of its cluster.
  bool Stuck(int64_t row, int32_t from) const {
    return !(rows_.weight(row) > 0) ||
           token_.weights[static_cast<size_t>(from)] <=
               adder_.WeightUnits(rows_.weight(row));
  }
  // What leaving saves and what joining costs, over w.
  double Saved(int64_t row, int32_t from) const {
    const double mass = masses_[static_cast<size_t>(from)];
    return mass / (mass - rows_.weight(row)) * SquaredDistance(row, from);
  }
  double Cost(int64_t row, int32_t to) const {
    const double mass = masses_[static_cast<size_t>(to)];
    return mass / (mass + rows_.weight(row)) * SquaredDistance(row, to);
  }

 private:
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

  const KMeansRows& rows_;
  const KMeansScale& scale_;
  const FixedPointAdder adder_;
  const KMeansToken& token_;
  const int64_t d_;
  std::vector<double> means_;
  std::vector<double> masses_;
};

class Sweeper {
 public:
  Sweeper(const KMeansRows& rows, const KMeansScale& scale,
          absl::Span<int32_t> labels, absl::Span<int32_t> others,
          KMeansToken& token)
      : rows_(rows),
        clusters_(rows, scale, token),
        labels_(labels),
        others_(others),
        token_(token) {}

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
  static size_t at(int64_t i) { return static_cast<size_t>(i); }

  void TryAll(int64_t row) {
    const int32_t from = labels_[at(row)];
    if (clusters_.Stuck(row, from)) return;
    const int64_t position = token_.offset + row;
    const double saved = clusters_.Saved(row, from);
    int32_t to = others_[at(row)];
    double cost = clusters_.used(to) && to != from
                      ? clusters_.Cost(row, to)
                      : std::numeric_limits<double>::infinity();
    const int32_t tried = to;
    for (int32_t j = 0; j < clusters_.size(); ++j) {
      if (j == from || j == tried || !clusters_.used(j)) continue;
      if (position >= token_.live[at(from)] && position >= token_.live[at(j)]) {
        continue;
      }
      const double one = clusters_.Cost(row, j);
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
    if (to == from || !clusters_.used(to) || clusters_.Stuck(row, from)) return;
    // Nothing has changed since this pair was last compared.
    if (token_.step >= token_.changed[at(from)] &&
        token_.step >= token_.changed[at(to)]) {
      return;
    }
    const double saved = clusters_.Saved(row, from);
    if (!(saved - clusters_.Cost(row, to) > kLeastGain * saved)) return;
    token_.quiet = 0;
    token_.unmoved = 0;
    token_.quick[at(from)] = 1;
    token_.quick[at(to)] = 1;
    token_.changed[at(from)] = token_.step + token_.rows;
    token_.changed[at(to)] = token_.step + token_.rows;
    Move(row, from, to);
  }

  void Move(int64_t row, int32_t from, int32_t to) {
    const FixedPointAdder& adder = clusters_.adder();
    const int64_t units = adder.WeightUnits(rows_.weight(row));
    const int64_t d = rows_.dimension();
    adder.Subtract(rows_, row, token_.sums.data() + from * d);
    adder.Add(rows_, row, token_.sums.data() + to * d);
    token_.weights[at(from)] -= units;
    token_.weights[at(to)] += units;
    clusters_.Update(from);
    clusters_.Update(to);
    labels_[at(row)] = to;
    others_[at(row)] = from;
    ++token_.moves;
  }

  const KMeansRows& rows_;
  Clusters clusters_;
  const absl::Span<int32_t> labels_;
  const absl::Span<int32_t> others_;
  KMeansToken& token_;
};

int64_t UsedClusters(const KMeansToken& token) {
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
  if (UsedClusters(token) < 2) return SweepNext::kDone;
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
    if (UsedClusters(token) == 2 && token.quiet >= token.rows) {
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

void ProposeMoves(const KMeansRows& rows, const KMeansScale& scale,
                  absl::Span<const int32_t> labels, const KMeansToken& token,
                  int64_t begin, int64_t end,
                  std::vector<HartiganMove>& moves) {
  const Clusters clusters(rows, scale, token);
  for (int64_t row = begin; row < end; ++row) {
    const int32_t from = labels[static_cast<size_t>(row)];
    if (clusters.Stuck(row, from)) continue;
    const double saved = clusters.Saved(row, from);
    HartiganMove best = {kLeastGain * saved, row, -1};
    for (int32_t j = 0; j < clusters.size(); ++j) {
      if (j == from || !clusters.used(j)) continue;
      const double gain = saved - clusters.Cost(row, j);
      if (gain > best.gain) {
        best.gain = gain;
        best.to = j;
      }
    }
    if (best.to < 0) continue;
    best.gain *= rows.weight(row);
    moves.push_back(best);
  }
}

double ObjectiveChange(const KMeansToken& token, const KMeansScale& scale,
                       absl::Span<const int64_t> sums,
                       absl::Span<const int64_t> weights) {
  const size_t k = token.weights.size();
  const size_t d = scale.sum_exponents.size();
  const auto sum = [&](int64_t units, size_t i) {
    return FromFixed64(units, scale.sum_exponents[i]);
  };
  std::vector<double> middle(d, 0);
  double mass = 0;
  for (size_t j = 0; j < k; ++j) {
    mass += FromFixed64(token.weights[j], scale.weight_exponent);
    for (size_t i = 0; i < d; ++i) middle[i] += sum(token.sums[j * d + i], i);
  }
  for (double& m : middle) m /= mass;
  double change = 0;
  for (size_t j = 0; j < k; ++j) {
    const double moved = FromFixed64(weights[j], scale.weight_exponent);
    const double before = FromFixed64(token.weights[j], scale.weight_exponent);
    const double after =
        FromFixed64(token.weights[j] + weights[j], scale.weight_exponent);
    if (token.weights[j] == 0) continue;
    if (!(after > 0)) return std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < d; ++i) {
      const double mean = sum(token.sums[j * d + i], i) / before - middle[i];
      const double shift = sum(sums[j * d + i], i) - moved * middle[i];
      const double rest = shift - moved * mean;
      change -= 2 * mean * shift - moved * mean * mean + rest * rest / after;
    }
  }
  return change;
}

}  // namespace coterie
