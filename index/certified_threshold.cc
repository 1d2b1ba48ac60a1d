#include "index/certified_threshold.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "index/certified_bound.h"
#include "index/certified_codes.h"
#include "index/certified_query.h"
#include "index/certified_slack.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace coterie::internal_certified {
namespace {

// Pending rows of a query are few once its threshold is near: waiting for a
// better one costs 16 bytes a row, re-scoring too early costs the row.
size_t CapacityFor(int64_t k) {
  return static_cast<size_t>(std::clamp<int64_t>(4 * k, 256, 1 << 16));
}

CertifiedScore ScoreOf(const CertifiedCodes& codes, int64_t row, int32_t ip) {
  return {*codes.a(row), *codes.b(row), ip};
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
                               const ScanRows& rows, double seed, TopK& top)
    : queries_(queries),
      query_(query),
      rows_(rows),
      top_(top),
      capacity_(CapacityFor(top.k())),
      threshold_(std::min(top.Threshold(), seed)) {}

void QueryThreshold::AddUpper(double upper) {
  const size_t k = static_cast<size_t>(top_.k());
  if (uppers_.size() < k) {
    uppers_.push_back(upper);
    std::push_heap(uppers_.begin(), uppers_.end());
  } else {
    if (!(upper < uppers_.front())) return;
    std::pop_heap(uppers_.begin(), uppers_.end());
    uppers_.back() = upper;
    std::push_heap(uppers_.begin(), uppers_.end());
  }
  if (uppers_.size() == k) threshold_ = std::min(threshold_, uppers_.front());
}

void QueryThreshold::Add(int64_t row, int32_t ip) {
  const CertifiedCodes& codes = queries_.codes();
  const CertifiedQuery& query = queries_.query(query_);
  const CertifiedScore score = ScoreOf(codes, row, ip);
  // An upper bound that cannot lower the threshold is not worth its roots.
  if (!(Estimate(codes, query, score) > threshold_)) {
    AddUpper(UpperBound(codes, query, PanelOf(codes, row), score));
  }
  if (codes.slack().fault == CertifiedFault::kDeadRowsTestified &&
      rows_.live != nullptr && (rows_.live[row / 64] >> (row % 64) & 1) == 0) {
    return;
  }
  pending_.push_back({0, static_cast<int32_t>(row), ip});
}

// Strictly: a row at the threshold may win by its id.
bool QueryThreshold::RuledOut(double lower) const {
  if (queries_.codes().slack().fault == CertifiedFault::kPruneTies) {
    return lower >= threshold_;
  }
  return lower > threshold_;
}

void QueryThreshold::DropRuledOut() {
  const CertifiedCodes& codes = queries_.codes();
  const CertifiedQuery& query = queries_.query(query_);
  for (size_t i = bounded_; i < pending_.size(); ++i) {
    Pending& p = pending_[i];
    p.lower = LowerBound(codes, query, PanelOf(codes, p.row),
                         ScoreOf(codes, p.row, p.ip));
  }
  pending_.erase(
      std::remove_if(pending_.begin(), pending_.end(),
                     [this](const Pending& p) { return RuledOut(p.lower); }),
      pending_.end());
  bounded_ = pending_.size();
}

bool QueryThreshold::Shrink(absl::FunctionRef<bool(int64_t)> stop) {
  DropRuledOut();
  return pending_.size() < capacity_ / 2 || Rescore(stop);
}

bool QueryThreshold::Rescore(absl::FunctionRef<bool(int64_t)> stop) {
  DropRuledOut();
  std::sort(pending_.begin(), pending_.end(),
            [](const Pending& a, const Pending& b) {
              return a.lower != b.lower ? a.lower < b.lower : a.row < b.row;
            });
  const ScanQueries& queries = queries_.queries();
  const VectorView q = queries.query(query_);
  const bool with_norms = queries.metric() != Metric::kSquaredL2;
  for (size_t i = 0; i < pending_.size(); ++i) {
    const Pending& p = pending_[i];
    if (RuledOut(p.lower)) break;
    if (i + 1 < pending_.size()) {
      PrefetchRow(rows_.rows.row(pending_[i + 1].row));
    }
    if (stop(rows_.rows.d * int64_t{sizeof(float)})) return false;
    const double distance =
        CanonicalDistance(queries.metric(), q, rows_.rows.row(p.row),
                          queries.squared_norm(query_),
                          with_norms ? rows_.squared_norms[p.row] : 0);
    ++evaluated_;
    top_.Offer({rows_.ids[p.row], distance});
    threshold_ = std::min(threshold_, top_.Threshold());
    if (queries_.codes().slack().fault == CertifiedFault::kCountTwice) {
      AddUpper(distance);
    }
  }
  pending_.clear();
  bounded_ = 0;
  return true;
}

}  // namespace coterie::internal_certified
