#include "index/certified_head.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "index/certified_codes.h"
#include "index/certified_lanes.h"
#include "index/certified_query.h"
#include "index/certified_slack.h"
#include "index/code_simd.h"
#include "index/distance.h"
#include "index/distances.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/vectors.h"

namespace coterie {
namespace {

using internal_certified::LaneDot;
using internal_certified::PadToLanes;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double NormOf(VectorView v) { return std::sqrt(CanonicalSquaredNorm(v)); }

// The mean of the rows, COSINE of the rows over their norms.
std::vector<float> MeanOf(Metric metric, RowsView rows) {
  std::vector<double> sum(static_cast<size_t>(rows.d));
  for (int64_t i = 0; i < rows.n; ++i) {
    const VectorView x = rows.row(i);
    const double factor = metric == Metric::kCosine ? 1 / NormOf(x) : 1;
    for (size_t j = 0; j < x.size(); ++j) sum[j] += factor * x[j];
  }
  std::vector<float> mean(sum.size());
  for (size_t j = 0; j < sum.size(); ++j) {
    mean[j] = static_cast<float>(sum[j] / static_cast<double>(rows.n));
  }
  return mean;
}

// The least float32 that is not below v. REQUIRES: 0 <= v <= 2^127.
float RoundUp(double v) {
  const float f = static_cast<float>(v);
  if (!(static_cast<double>(f) < v)) return f;
  return std::nextafterf(f, std::numeric_limits<float>::infinity());
}

}  // namespace

CertifiedHead::CertifiedHead(Metric metric, RowsView rows,
                             std::vector<float> directions,
                             const CertifiedSlack& slack)
    : metric_(metric),
      slack_(slack),
      d_(rows.d),
      directions_(std::move(directions)),
      centre_(MeanOf(metric, rows)),
      centre_norm_(NormOf(centre_)) {
  assert(metric != Metric::kInnerProduct);
  assert(static_cast<int64_t>(directions_.size()) % d_ == 0);
  const auto m = static_cast<int64_t>(directions_.size()) / d_;
  assert(m >= 1 && m <= kMostDirections);
  const RowsView views = {directions_.data(), m, d_, d_};
  for (int64_t i = 0; i < m; ++i) {
    centre_products_.push_back(CanonicalDot(views.row(i), centre_));
  }
  FindFactor();

  constexpr int64_t kPanel = CertifiedCodes::kPanelRows;
  rests_.reserve(static_cast<size_t>(rows.n));
  panel_errors_.resize(static_cast<size_t>((rows.n + kPanel - 1) / kPanel));
  std::vector<float> projected;
  projected.reserve(static_cast<size_t>(rows.n * (m + 1)));
  Projection projection;
  for (int64_t i = 0; i < rows.n; ++i) {
    Project(rows.row(i), projection);
    projected.insert(projected.end(), projection.z.begin(), projection.z.end());
    rests_.push_back(RoundUp(projection.rest));
    double& error = panel_errors_[static_cast<size_t>(i / kPanel)];
    error = std::max(error, projection.error);
  }
  CertifiedCodes::Options options;
  options.slack = slack_;
  codes_ = std::make_unique<CertifiedCodes>(
      Metric::kSquaredL2, RowsView{projected.data(), rows.n, m + 1, m + 1},
      options);
}

// The rows of P P^T bound its greatest eigenvalue (Gershgorin).
void CertifiedHead::FindFactor() {
  const int64_t m = directions();
  const RowsView views = {directions_.data(), m, d_, d_};
  std::vector<double> norms;
  for (int64_t i = 0; i < m; ++i) norms.push_back(NormOf(views.row(i)));
  std::vector<double> sums(static_cast<size_t>(m));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      const auto a = static_cast<size_t>(i);
      const auto b = static_cast<size_t>(j);
      const double entry = std::fabs(CanonicalDot(views.row(i), views.row(j))) +
                           0x1p-41 * norms[a] * norms[b];
      sums[a] += entry;
      if (i != j) sums[b] += entry;
    }
  }
  const double most = *std::max_element(sums.begin(), sums.end());
  if (slack_.fault == CertifiedFault::kNoHeadFactor || most == 0) return;
  factor_ = (1 - 0x1p-40) / std::sqrt(most);
}

void CertifiedHead::Project(VectorView x, Projection& projection) const {
  const auto m = static_cast<size_t>(directions());
  const bool unit = metric_ == Metric::kCosine;
  const double norm = NormOf(x);
  const double f = unit ? 1 / norm : 1;
  const double s = (unit ? 1 : norm) + centre_norm_;
  const RowsView views = {directions_.data(), directions(), d_, d_};

  std::vector<double> h(static_cast<size_t>(PadToLanes(directions() + 1)));
  CanonicalDots(x, views, h.data());
  for (size_t i = 0; i < m; ++i) {
    h[i] = factor_ * (f * h[i] - centre_products_[i]);
  }
  std::vector<double> y(static_cast<size_t>(PadToLanes(d_)));
  for (size_t j = 0; j < x.size(); ++j) {
    y[j] = static_cast<double>(x[j]) * f - static_cast<double>(centre_[j]);
  }
  const double all = LaneDot(y.data(), y.data(), PadToLanes(d_));
  const double kept = LaneDot(h.data(), h.data(), PadToLanes(directions() + 1));
  double rest = std::sqrt(std::max(0.0, all - kept));
  if (slack_.fault == CertifiedFault::kHeadRestInFloat) {
    rest = std::sqrt(
        std::max(0.0F, static_cast<float>(all) - static_cast<float>(kept)));
  }
  h[m] = rest;

  const double root_m = std::sqrt(static_cast<double>(m));
  const double square_error = root_m * 0x1p-37 * s * s;
  const double rest_error = rest * rest > square_error
                                ? square_error / rest
                                : std::sqrt(square_error);
  projection.z.assign(m + 1, 0);
  double rounding = 0;
  for (size_t i = 0; i <= m; ++i) {
    projection.z[i] = static_cast<float>(h[i]);
    const double r = h[i] - static_cast<double>(projection.z[i]);
    rounding += r * r;
  }
  projection.error = (root_m * 0x1p-40 * s + rest_error + std::sqrt(rounding)) *
                     (1 + slack_.delta);
  projection.rest = (rest + rest_error) * (1 + slack_.delta);
  // Beyond float32, where its codes need some room, too.
  if (!(s < 0x1p100)) {
    projection.z.assign(m + 1, 0);
    projection.error = kInfinity;
  }
  if (slack_.fault == CertifiedFault::kNoHeadError ||
      slack_.fault == CertifiedFault::kHeadRestInFloat) {
    projection.error = 0;
  }
  if (slack_.fault == CertifiedFault::kNoHeadRest) projection.rest = 0;
}

int64_t CertifiedHead::MemoryBytes() const {
  return codes_->MemoryBytes() +
         static_cast<int64_t>(
             (rests_.size() + directions_.size() + centre_.size()) *
                 sizeof(float) +
             (panel_errors_.size() + centre_products_.size()) * sizeof(double));
}

namespace {

CertifiedHead::Projection ProjectionOf(const CertifiedHead& head,
                                       VectorView x) {
  CertifiedHead::Projection projection;
  head.Project(x, projection);
  return projection;
}

}  // namespace

CertifiedHeadQuery::CertifiedHeadQuery(const ScanQueries& queries,
                                       int64_t query, const CertifiedHead& head,
                                       CodeKernel kernel)
    : head_(head),
      slack_(head.codes().slack()),
      projection_(ProjectionOf(head, queries.query(query))),
      scan_(Metric::kSquaredL2, {projection_.z.data(), 1, head.directions() + 1,
                                 head.directions() + 1}),
      coded_(scan_, head.codes(), kernel, CertifiedQueries::Depth::kFine) {
  assert(queries.metric() == head.metric());
}

double CertifiedHeadQuery::ThresholdFor(int64_t panel, double threshold) const {
  if (!(threshold < kInfinity)) return kInfinity;
  const double square = head_.metric() == Metric::kCosine
                            ? 2 * (threshold + slack_.eta)
                            : threshold;
  const double reach =
      std::sqrt(std::max(0.0, square * (1 + slack_.delta))) + ErrorOf(panel);
  const double up = 1 + slack_.delta;
  return reach * reach * up * up;
}

double CertifiedHeadQuery::Lower(int64_t panel, double lower) const {
  const double down = 1 - slack_.delta;
  const double apart =
      std::max(0.0, std::sqrt(std::max(0.0, lower) * down) - ErrorOf(panel));
  const double square = apart * apart * down;
  return head_.metric() == Metric::kCosine ? square / 2 - slack_.eta : square;
}

double CertifiedHeadQuery::Upper(int64_t row, double upper) const {
  const double up = 1 + slack_.delta;
  const double apart = std::sqrt(std::max(0.0, upper) * up) +
                       ErrorOf(row / CertifiedCodes::kPanelRows);
  const double rests =
      4 * projection_.rest * static_cast<double>(head_.rest(row));
  const double square = (apart * apart + rests) * up;
  return head_.metric() == Metric::kCosine ? square / 2 + slack_.eta : square;
}

}  // namespace coterie
