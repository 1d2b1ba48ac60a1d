// How many directions a head should have, if any.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "index/certified_head.h"
#include "index/distance.h"
#include "index/distances.h"
#include "index/metric.h"
#include "index/principal_directions.h"
#include "index/vectors.h"

namespace coterie {
namespace {

// A head is for scans that take long, of rows that are long.
constexpr int64_t kLeastRows = 16384;
constexpr int64_t kLeastDimension = 64;
constexpr int64_t kMostTried = 128;
constexpr int64_t kRounds = 4;
// Of every kStep sampled rows one is a query, kTraining are for directions and
// the others to be judged.
constexpr int64_t kStep = 96;
constexpr int64_t kTraining = 31;
constexpr int64_t kSampledRows = 32 * kStep;

// m + 1 numbers a row fill their quads.
int64_t DirectionsAt(size_t step) { return 4 * static_cast<int64_t>(step) + 7; }

// Rows of a sample over their norms, where the metric wants it, less the mean.
struct Sample {
  int64_t d = 0;
  std::vector<float> training;
  std::vector<float> judged;
  std::vector<float> queries;

  RowsView View(const std::vector<float>& rows) const {
    return {rows.data(), static_cast<int64_t>(rows.size()) / d, d, d};
  }
};

Sample Draw(Metric metric, RowsView rows) {
  Sample sample;
  sample.d = rows.d;
  std::vector<double> mean(static_cast<size_t>(rows.d));
  for (int64_t i = 0; i < kSampledRows; ++i) {
    const VectorView x = rows.row(i * rows.n / kSampledRows);
    const double f =
        metric == Metric::kCosine ? 1 / std::sqrt(CanonicalSquaredNorm(x)) : 1;
    std::vector<float>& to = i % kStep == 0           ? sample.queries
                             : i % kStep <= kTraining ? sample.training
                                                      : sample.judged;
    for (size_t j = 0; j < x.size(); ++j) {
      to.push_back(static_cast<float>(f * x[j]));
      mean[j] += f * x[j] / kSampledRows;
    }
  }
  for (auto* part : {&sample.training, &sample.judged, &sample.queries}) {
    for (size_t at = 0; at < part->size(); ++at) {
      (*part)[at] -= static_cast<float>(mean[at % mean.size()]);
    }
  }
  return sample;
}

// Heads of one row, with directions enough for each step.
struct Heads {
  std::vector<double> kept;  // products with the directions
  std::vector<double> rest;  // by step, what these leave
};

Heads HeadsOf(VectorView y, RowsView directions, size_t steps) {
  Heads heads;
  heads.kept.resize(static_cast<size_t>(directions.n));
  CanonicalDots(y, directions, heads.kept.data());
  double rest = CanonicalSquaredNorm(y);
  size_t i = 0;
  for (size_t step = 0; step < steps; ++step) {
    for (; i < static_cast<size_t>(DirectionsAt(step)); ++i) {
      rest -= heads.kept[i] * heads.kept[i];
    }
    heads.rest.push_back(std::sqrt(std::max(0.0, rest)));
  }
  return heads;
}

// For each step the share of judged rows that its head does not tell from the
// nearest of them: more than what is left of many rows for few neighbours.
std::vector<double> SharesLeft(const Sample& sample, RowsView directions,
                               size_t steps) {
  const RowsView judged = sample.View(sample.judged);
  const RowsView queries = sample.View(sample.queries);
  std::vector<Heads> heads;
  for (int64_t i = 0; i < judged.n; ++i) {
    heads.push_back(HeadsOf(judged.row(i), directions, steps));
  }
  std::vector<double> shares(steps);
  for (int64_t q = 0; q < queries.n; ++q) {
    const Heads query = HeadsOf(queries.row(q), directions, steps);
    double nearest = std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < judged.n; ++i) {
      nearest = std::min(
          nearest,
          CanonicalDistance(Metric::kSquaredL2, queries.row(q), judged.row(i)));
    }
    for (const Heads& row : heads) {
      double square = 0;
      size_t i = 0;
      for (size_t step = 0; step < steps; ++step) {
        for (; i < static_cast<size_t>(DirectionsAt(step)); ++i) {
          const double apart = query.kept[i] - row.kept[i];
          square += apart * apart;
        }
        if (square > nearest) break;
        const double apart = query.rest[step] - row.rest[step];
        if (square + apart * apart <= nearest) {
          shares[step] += 1 / static_cast<double>(judged.n * queries.n);
        }
      }
    }
  }
  return shares;
}

}  // namespace

std::unique_ptr<const CertifiedHead> CertifiedHead::MakeIfPays(
    Metric metric, RowsView rows, double bytes_a_row, double share) {
  if (metric == Metric::kInnerProduct || rows.n < kLeastRows ||
      rows.d < kLeastDimension) {
    return nullptr;
  }
  for (int64_t i = 0; i < rows.n; ++i) {
    for (const float v : rows.row(i)) {
      if (std::fabs(v) > kMostMagnitude) return nullptr;
    }
  }
  const Sample sample = Draw(metric, rows);
  const auto steps =
      static_cast<size_t>((std::min(kMostTried, rows.d / 2) - 3) / 4);
  const int64_t most = DirectionsAt(steps - 1);
  std::vector<float> directions =
      PrincipalDirections(sample.View(sample.training), most, kRounds);
  const std::vector<double> left =
      SharesLeft(sample, {directions.data(), most, rows.d, rows.d}, steps);
  // A row that is left takes as long to be re-scored, at a place that memory
  // does not expect, as so many bytes to be read in order (measured).
  const double row_bytes = 12 * static_cast<double>(rows.d) + 1024;
  double best_bytes = share * bytes_a_row;
  int64_t best = 0;
  for (size_t step = 0; step < steps; ++step) {
    const auto head_bytes = static_cast<double>(DirectionsAt(step) + 9);
    const double bytes = head_bytes + left[step] * row_bytes;
    if (bytes < best_bytes) {
      best_bytes = bytes;
      best = DirectionsAt(step);
    }
  }
  if (best == 0) return nullptr;
  directions.resize(static_cast<size_t>(best * rows.d));
  return std::make_unique<CertifiedHead>(metric, rows, std::move(directions));
}

}  // namespace coterie
