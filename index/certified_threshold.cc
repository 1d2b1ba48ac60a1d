#include "index/certified_threshold.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "index/certified_bound.h"
#include "index/certified_codes.h"
#include "index/certified_query.h"
#include "index/certified_slack.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/shared_threshold.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace coterie::internal_certified {
namespace {

// Rows that wait before the threshold is tightened by them: more than k, so
// that the k-th least of their bounds exists, and by a share of k, so that
// finding it costs little a row.
size_t CapacityFor(int64_t k) {
  return static_cast<size_t>(std::max<int64_t>(64, 2 * k));
}

// Rows that wait for a better threshold rather than being re-scored. A row
// re-scored in vain costs more than its bound; but bounds alone may be too
// coarse to tell rows apart.
size_t PatienceFor(int64_t k) {
  return static_cast<size_t>(std::max<int64_t>(256, 2 * k));
}

// How many rows ahead memory is asked for them.
int64_t RowsAhead(int64_t dimension) {
  constexpr int64_t kFloatsAhead = 2048;
  return std::clamp<int64_t>(kFloatsAhead / dimension, 1, 8);
}

const CertifiedPanel& PanelOf(const CertifiedCodes& codes, int64_t row) {
  return codes.panel(row / CertifiedCodes::kPanelRows);
}

// Asks memory for the row, at most 4 KiB of it, to have it when its turn comes.
void PrefetchRow(VectorView row) {
  constexpr size_t kLineFloats = 16;
  const size_t end = std::min<size_t>(row.size(), 1024);
  for (size_t j = 0; j < end; j += kLineFloats) {
    __builtin_prefetch(row.data() + j);
  }
}

}  // namespace

QueryThreshold::QueryThreshold(const CertifiedQueries& queries, int64_t query,
                               const ScanRows& rows, SharedThreshold* shared,
                               TopK& top)
    : queries_(queries),
      query_(query),
      rows_(rows),
      shared_(shared),
      top_(top),
      capacity_(CapacityFor(top.k())),
      threshold_(top.Threshold()) {
  Refresh();
}

// Each row's upper bound counts once, when it is new.
void QueryThreshold::BoundNew() {
  const CertifiedCodes& codes = queries_.codes();
  const CertifiedRange range(codes, queries_.query(query_));
  for (size_t i = bounded_; i < pending_.size(); ++i) {
    Pending& p = pending_[i];
    const CertifiedRange::Bounds bounds =
        range.Of(PanelOf(codes, p.row), p.score);
    p.lower = bounds.lower;
    if (bounds.upper < threshold_) uppers_.push_back(bounds.upper);
    if (codes.slack().fault == CertifiedFault::kDeadRowsTestified &&
        rows_.live != nullptr &&
        (rows_.live[p.row / 64] >> (p.row % 64) & 1) == 0) {
      p.lower = std::numeric_limits<double>::infinity();
    }
  }
  LowerToKthUpper();
}

void QueryThreshold::LowerToKthUpper() {
  const size_t k = static_cast<size_t>(top_.k());
  if (uppers_.size() < k) return;
  const auto kth = uppers_.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(uppers_.begin(), kth, uppers_.end());
  Lower(*kth);
  uppers_.resize(k);
}

// Strictly: a row at the threshold may win by its id.
bool QueryThreshold::RuledOut(double lower) const {
  if (queries_.codes().slack().fault == CertifiedFault::kPruneTies) {
    return lower >= threshold_;
  }
  return lower > threshold_;
}

void QueryThreshold::DropRuledOut() {
  BoundNew();
  size_t kept = 0;
  for (const Pending& p : pending_) {
    pending_[kept] = p;
    kept += RuledOut(p.lower) ? 0 : 1;
  }
  pending_.resize(kept);
  bounded_ = kept;
}

bool QueryThreshold::Shrink(absl::FunctionRef<bool(int64_t)> stop) {
  Refresh();
  DropRuledOut();
  if (shared_ != nullptr) shared_->Lower(threshold_);
  if (pending_.size() >= PatienceFor(top_.k())) return Rescore(stop);
  capacity_ = std::max(CapacityFor(top_.k()),
                       pending_.size() + static_cast<size_t>(top_.k()));
  return true;
}

bool QueryThreshold::Rescore(absl::FunctionRef<bool(int64_t)> stop) {
  Refresh();
  DropRuledOut();
  for (const Pending& p : pending_) {
    candidates_.push_back(
        {LowerBound(queries_.codes(), queries_.query(query_),
                    PanelOf(queries_.codes(), p.row), p.score),
         p.row});
  }
  pending_.clear();
  bounded_ = 0;
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) {
              return a.lower != b.lower ? a.lower < b.lower : a.row < b.row;
            });
  const ScanQueries& queries = queries_.queries();
  const VectorView q = queries.query(query_);
  const bool with_norms = queries.metric() != Metric::kSquaredL2;
  const auto ahead = static_cast<size_t>(RowsAhead(rows_.rows.d));
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const Candidate& p = candidates_[i];
    if (RuledOut(p.lower)) break;
    if (i + ahead < candidates_.size()) {
      PrefetchRow(rows_.rows.row(candidates_[i + ahead].row));
    }
    if (stop(rows_.rows.d * int64_t{sizeof(float)})) return false;
    const double distance =
        CanonicalDistance(queries.metric(), q, rows_.rows.row(p.row),
                          queries.squared_norm(query_),
                          with_norms ? rows_.squared_norms[p.row] : 0);
    ++evaluated_;
    top_.Offer({rows_.ids[p.row], distance});
    Lower(top_.Threshold());
    if (queries_.codes().slack().fault == CertifiedFault::kCountTwice) {
      uppers_.push_back(distance);
      LowerToKthUpper();
    }
  }
  candidates_.clear();
  if (shared_ != nullptr) shared_->Lower(threshold_);
  return true;
}

}  // namespace coterie::internal_certified
