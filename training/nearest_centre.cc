#include "training/nearest_centre.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/simd.h"
#include "index/vectors.h"
#include "training/kmeans_rows.h"
#include "training/nearest_kernels.h"

namespace coterie {

using internal_nearest::kChainDimensions;
using internal_nearest::kRowMultiple;
using internal_nearest::NearestTile;

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kV = 0x1p-24;
// Rows that go over all centres together: should stay in L2 beside a panel.
constexpr int64_t kTileBytes = 128 << 10;
constexpr int64_t kMaxTileRows = 256;

int64_t RoundUpTo(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

int64_t TileRows(int64_t d) {
  const int64_t bytes = 4 * std::max<int64_t>(16, d);
  return std::clamp(kTileBytes / bytes / kRowMultiple * kRowMultiple,
                    2 * kRowMultiple, kMaxTileRows);
}

int64_t RowStride(int64_t d) { return RoundUpTo(std::max<int64_t>(1, d), 16); }

double NormOf(const float* y, int64_t d) {
  double lane[8] = {};
  int64_t j = 0;
  for (; j + 8 <= d; j += 8) {
    for (int64_t l = 0; l < 8; ++l) {
      lane[l] += static_cast<double>(y[j + l]) * static_cast<double>(y[j + l]);
    }
  }
  for (; j < d; ++j) {
    lane[0] += static_cast<double>(y[j]) * static_cast<double>(y[j]);
  }
  double sum = 0;
  for (double part : lane) sum += part;
  return std::sqrt(sum);
}

double Roundings(int64_t d) {
  const double n =
      static_cast<double>(std::min(d, kChainDimensions) +
                          (d + kChainDimensions - 1) / kChainDimensions + 5);
  return n * kV / (1 - n * kV);
}

double Subnormals(int64_t d) { return static_cast<double>(d + 16) * 0x1p-148; }

}  // namespace

NearestCentre::Kernels NearestCentre::ActiveKernels() {
  using namespace internal_nearest;
  switch (ActiveSimdTarget()) {
    case SimdTarget::kAvx512:
      return {NearestAvx512, ScoresAvx512, kWidthAvx512};
    case SimdTarget::kAvx2:
      return {NearestAvx2, ScoresAvx2, kWidthAvx2};
    case SimdTarget::kScalar:
      break;
  }
  return {NearestSse, ScoresSse, kWidthSse};
}

NearestCentre::NearestCentre(Metric metric, RowsView centres,
                             absl::Span<const uint8_t> active)
    : metric_(metric),
      kernels_(ActiveKernels()),
      active_(active.begin(), active.end()) {
  assert(centres.n >= 1 && centres.n < int64_t{1} << 31);
  assert(active.empty() || static_cast<int64_t>(active.size()) == centres.n);
  data_.reserve(static_cast<size_t>(centres.n * centres.d));
  for (int64_t j = 0; j < centres.n; ++j) {
    const VectorView c = centres.row(j);
    data_.insert(data_.end(), c.begin(), c.end());
    if (metric == Metric::kCosine) {
      squared_norms_.push_back(CanonicalSquaredNorm(c));
    }
  }
  centres_ = {data_.data(), centres.n, centres.d, centres.d};
  Pack();
}

void NearestCentre::Pack() {
  const int64_t d = centres_.d;
  std::vector<double> mean(static_cast<size_t>(d), 0);
  if (metric_ != Metric::kCosine) {
    int64_t count = 0;
    for (int64_t j = 0; j < size(); ++j) {
      if (!active(j)) continue;
      ++count;
      for (int64_t i = 0; i < d; ++i) mean[i] += centre(j)[i];
    }
    for (double& m : mean) m /= static_cast<double>(count);
  }
  offset_.assign(mean.begin(), mean.end());
  std::vector<float> z(static_cast<size_t>(d));
  double largest = 0;
  for (int64_t j = 0; j < size(); ++j) {
    if (!active(j)) continue;
    PackCentre(j, z.data());
    largest = std::max(largest, NormOf(z.data(), d));
  }
  if (metric_ != Metric::kCosine && largest > 0 && largest < kInfinity) {
    std::frexp(largest, &unit_);
  }
  const int64_t width = kernels_.width;
  blocks_ = (size() + width - 1) / width;
  panels_.resize(
      static_cast<size_t>(RoundUpTo(blocks_ * width * d, 16) / 16 + 1));
  starts_.assign(static_cast<size_t>(blocks_ * width), kMinusInfinity);
  largest_norm_ = 0;
  for (int64_t j = 0; j < size(); ++j) {
    if (!active(j)) continue;
    PackCentre(j, z.data());
    const double norm = NormOf(z.data(), d);
    largest_norm_ = std::max(largest_norm_, norm * (1 + 0x1p-40));
    starts_[static_cast<size_t>(j)] = static_cast<float>(-0.5 * norm * norm);
    float* panel = panels_.data()->floats + j / width * width * d + j % width;
    for (int64_t i = 0; i < d; ++i) panel[i * width] = z[i];
  }
}

void NearestCentre::PackCentre(int64_t j, float* z) const {
  const VectorView c = centre(j);
  const int64_t d = centres_.d;
  if (metric_ == Metric::kCosine) {
    const double inverse = 1 / std::sqrt(squared_norm(j));
    for (int64_t i = 0; i < d; ++i) z[i] = static_cast<float>(c[i] * inverse);
    return;
  }
  const float unit = std::ldexp(1.0f, std::clamp(-unit_, -126, 126));
  for (int64_t i = 0; i < d; ++i) z[i] = (c[i] - offset_[i]) * unit;
}

double NearestCentre::PackRow(const KMeansRows& rows, int64_t row,
                              float* y) const {
  const float* x = rows.data(row);
  const float* o = offset_.data();
  const int64_t d = centres_.d;
  if (metric_ == Metric::kCosine) {
    const double inverse = 1 / std::sqrt(rows.squared_norm(row));
    for (int64_t i = 0; i < d; ++i) y[i] = static_cast<float>(x[i] * inverse);
  } else {
    const float unit = std::ldexp(1.0f, std::clamp(-unit_, -126, 126));
    for (int64_t i = 0; i < d; ++i) y[i] = (x[i] - o[i]) * unit;
  }
  return NormOf(y, d);
}

double NearestCentre::Doubt(double norm) const {
  const double m = norm + largest_norm_;
  if (!(m < 0x1p60)) return kInfinity;
  return m * m * (1.01 * Roundings(centres_.d) + 2.5 * kV) +
         4 * Subnormals(centres_.d);
}

double NearestCentre::RadiusFromScore(double norm, double score) const {
  const double m = norm + largest_norm_;
  if (!(m < 0x1p60)) return 0;
  if (score == -kInfinity) return kInfinity;  // no centre
  const double error =
      m * m * (0.51 * Roundings(centres_.d)) + Subnormals(centres_.d);
  const double square = norm * norm * (1 - 0x1p-40) - 2 * (score + error);
  if (!(square > 0)) return 0;
  const double radius = std::sqrt(square) * (1 - 0x1p-40) - 1.2 * kV * m;
  return radius > 0 ? std::ldexp(radius, std::clamp(unit_, -126, 126)) : 0;
}

void NearestCentre::FillTile(const KMeansRows& rows,
                             absl::Span<const int64_t> which,
                             Scratch& scratch) const {
  const int64_t count = static_cast<int64_t>(which.size());
  const int64_t padded = RoundUpTo(count, kRowMultiple);
  const int64_t stride = RowStride(centres_.d);
  scratch.rows_.resize(static_cast<size_t>(padded * stride / 16));
  scratch.norms_.resize(static_cast<size_t>(count));
  float* y = scratch.rows_.data()->floats;
  for (int64_t i = 0; i < count; ++i) {
    scratch.norms_[static_cast<size_t>(i)] =
        PackRow(rows, which[static_cast<size_t>(i)], y + i * stride);
  }
  std::fill(y + count * stride, y + padded * stride, 0.0f);
}

NearestTile NearestCentre::TileFor(int64_t count, Scratch& scratch) const {
  const int64_t padded = RoundUpTo(count, kRowMultiple);
  scratch.best_.resize(static_cast<size_t>(padded));
  scratch.second_.resize(static_cast<size_t>(padded));
  scratch.index_.resize(static_cast<size_t>(padded));
  return {.rows = scratch.rows_.data()->floats,
          .row_count = padded,
          .row_stride = RowStride(centres_.d),
          .d = centres_.d,
          .panels = panels_.data()->floats,
          .starts = starts_.data(),
          .blocks = blocks_,
          .scores = scratch.scores_.data(),
          .best = scratch.best_.data(),
          .index = scratch.index_.data(),
          .second = scratch.second_.data()};
}

void NearestCentre::Find(const KMeansRows& rows,
                         absl::Span<const int64_t> which,
                         absl::Span<NearestFound> found,
                         Scratch& scratch) const {
  const size_t tile_rows = static_cast<size_t>(TileRows(centres_.d));
  for (size_t first = 0; first < which.size(); first += tile_rows) {
    const absl::Span<const int64_t> part = which.subspan(first, tile_rows);
    FillTile(rows, part, scratch);
    const int64_t count = static_cast<int64_t>(part.size());
    scratch.scores_.resize(
        static_cast<size_t>(RoundUpTo(count, kRowMultiple) * kernels_.width));
    kernels_.nearest(TileFor(count, scratch));
    scratch.doubtful_.clear();
    for (size_t i = 0; i < part.size(); ++i) {
      const double norm = scratch.norms_[i];
      const double best = scratch.best_[i];
      if (!(best - scratch.second_[i] > Doubt(norm))) {
        scratch.doubtful_.push_back(static_cast<int64_t>(i));
        continue;
      }
      const int32_t label = scratch.index_[i];
      found[first + i] = {
          label, rows.Distance(part[i], centre(label), squared_norm(label)),
          RadiusFromScore(norm, scratch.second_[i])};
    }
    ResolveDoubtful(rows, part, found.subspan(first, part.size()), scratch);
  }
}

void NearestCentre::ResolveDoubtful(const KMeansRows& rows,
                                    absl::Span<const int64_t> which,
                                    absl::Span<NearestFound> found,
                                    Scratch& scratch) const {
  const int64_t width = kernels_.width;
  scratch.scores_.resize(static_cast<size_t>(kRowMultiple * blocks_ * width));
  for (size_t first = 0; first < scratch.doubtful_.size();
       first += kRowMultiple) {
    const size_t end = std::min(first + kRowMultiple, scratch.doubtful_.size());
    scratch.doubtful_which_.clear();
    for (size_t i = first; i < end; ++i) {
      scratch.doubtful_which_.push_back(
          which[static_cast<size_t>(scratch.doubtful_[i])]);
    }
    FillTile(rows, scratch.doubtful_which_, scratch);
    kernels_.scores(TileFor(static_cast<int64_t>(end - first), scratch));
    for (size_t i = first; i < end; ++i) {
      const int64_t at = static_cast<int64_t>(i - first);
      Resolve(rows, scratch.doubtful_which_[i - first],
              scratch.norms_[i - first], scratch.scores_.data() + at * width,
              kRowMultiple * width,
              found[static_cast<size_t>(scratch.doubtful_[i])]);
    }
  }
}

// Scores of centre j at scores[j / width * block_stride + j % width].
void NearestCentre::Resolve(const KMeansRows& rows, int64_t row, double norm,
                            const float* scores, int64_t block_stride,
                            NearestFound& found) const {
  const int64_t width = kernels_.width;
  const auto score = [&](int64_t j) {
    return static_cast<double>(scores[j / width * block_stride + j % width]);
  };
  double best = -kInfinity;
  for (int64_t j = 0; j < size(); ++j) {
    if (active(j)) best = std::max(best, score(j));
  }
  const double cut = best - Doubt(norm);
  found = {-1, kInfinity, kInfinity};
  for (int64_t j = 0; j < size(); ++j) {
    if (!active(j)) continue;
    if (score(j) < cut) {
      found.other = std::min(found.other, RadiusFromScore(norm, score(j)));
      continue;
    }
    const double distance = rows.Distance(row, centre(j), squared_norm(j));
    if (found.label < 0 || distance < found.distance) {
      if (found.label >= 0) {
        found.other =
            std::min(found.other, RadiusAtLeast(metric_, found.distance));
      }
      found.label = static_cast<int32_t>(j);
      found.distance = distance;
    } else {
      found.other = std::min(found.other, RadiusAtLeast(metric_, distance));
    }
  }
}

void NearestCentre::FindWithBounds(const KMeansRows& rows,
                                   absl::Span<const int64_t> which,
                                   absl::Span<NearestFound> found,
                                   float* const* bounds,
                                   Scratch& scratch) const {
  const int64_t width = kernels_.width;
  scratch.scores_.resize(static_cast<size_t>(kRowMultiple * blocks_ * width));
  for (size_t first = 0; first < which.size(); first += kRowMultiple) {
    const absl::Span<const int64_t> part = which.subspan(first, kRowMultiple);
    FillTile(rows, part, scratch);
    kernels_.scores(TileFor(static_cast<int64_t>(part.size()), scratch));
    for (size_t i = 0; i < part.size(); ++i) {
      const float* scores =
          scratch.scores_.data() + static_cast<int64_t>(i) * width;
      const double norm = scratch.norms_[i];
      Resolve(rows, part[i], norm, scores, kRowMultiple * width,
              found[first + i]);
      for (int64_t j = 0; j < size(); ++j) {
        const float s = scores[j / width * kRowMultiple * width + j % width];
        bounds[first + i][j] = active(j)
                                   ? FloatAtMost(RadiusFromScore(norm, s))
                                   : std::numeric_limits<float>::infinity();
      }
    }
  }
}

}  // namespace coterie
