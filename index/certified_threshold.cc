#include "index/certified_threshold.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "index/certified_bound.h"
#include "index/certified_codes.h"
#include "index/certified_guess.h"
#include "index/certified_head.h"
#include "index/certified_plane.h"
#include "index/certified_query.h"
#include "index/certified_slack.h"
#include "index/distances.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/shared_threshold.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace coterie::internal_certified {
namespace {

// Rows that come before the threshold is tightened by them: by a share of those
// that wait, so that looking at all costs little a row.
size_t CapacityFor(size_t pending, int64_t k) {
  return pending +
         std::max({size_t{64}, pending / 4, static_cast<size_t>(k) / 2});
}

// Rows that wait for a better threshold rather than being re-scored. A row
// re-scored in vain costs more than its bound; but bounds alone may be too
// coarse to tell rows apart.
size_t LeastPatience(int64_t k) {
  return static_cast<size_t>(std::max<int64_t>(256, 2 * k));
}
size_t MostPatience(int64_t k) { return 16 * LeastPatience(k); }

// From here on sorting rows costs more than re-scoring some in vain.
constexpr size_t kSortedWhole = 128;

// How many rows ahead memory is asked for them.
size_t RowsAhead(int64_t dimension) {
  constexpr int64_t kFloatsAhead = 8192;
  return static_cast<size_t>(
      std::clamp<int64_t>(kFloatsAhead / dimension, 1, 16));
}

// Asks memory for the row, at most 4 KiB of it, to have it when its turn comes.
void PrefetchRow(VectorView row) {
  constexpr size_t kLineFloats = 16;
  const size_t end = std::min<size_t>(row.size(), 1024);
  for (size_t j = 0; j < end; j += kLineFloats) {
    __builtin_prefetch(row.data() + j);
  }
}

// The k-th least of at least k values, none above `most`: one pass counts them
// by size, which leaves few to put in order. O(values).
double KthLeast(std::vector<double>& values, size_t k, double most) {
  constexpr size_t kBins = 512;
  const auto kth = [k](std::vector<double>& v, size_t before) {
    const auto at = v.begin() + static_cast<std::ptrdiff_t>(k - 1 - before);
    std::nth_element(v.begin(), at, v.end());
    return *at;
  };
  double base = most;
  for (const double v : values) base = v < base ? v : base;
  const double scale = static_cast<double>(kBins - 1) / (most - base);
  // Too few, equal, or too far apart to be counted.
  if (values.size() < kBins || !std::isfinite(most - base) ||
      !std::isfinite(scale)) {
    return kth(values, 0);
  }
  const auto bin_of = [base, scale](double v) {
    return static_cast<size_t>(static_cast<int64_t>((v - base) * scale));
  };
  std::array<uint32_t, kBins> counts = {};
  for (const double v : values) ++counts[bin_of(v)];
  size_t bin = 0;
  size_t before = 0;
  while (before + counts[bin] < k) before += counts[bin++];
  std::vector<double> in_bin;
  in_bin.reserve(counts[bin]);
  for (const double v : values) {
    if (bin_of(v) == bin) in_bin.push_back(v);
  }
  return kth(in_bin, before);
}

}  // namespace

QueryThreshold::QueryThreshold(const CertifiedQueries& queries, int64_t query,
                               const ScanRows& rows, SharedThreshold* shared,
                               TopK& top, const CertifiedPlane* plane,
                               const CertifiedHeadQuery* head,
                               GuessedThreshold* guess)
    : queries_(queries),
      query_(query),
      rows_(rows),
      shared_(shared),
      top_(top),
      plane_(plane),
      head_(head),
      guess_(guess),
      prunes_ties_(queries.codes().slack().fault == CertifiedFault::kPruneTies),
      // The k-th least of their bounds should exist.
      capacity_(CapacityFor(static_cast<size_t>(top.k()), top.k())),
      patience_(LeastPatience(top.k())),
      threshold_(top.Threshold()) {
  Refresh();
  // About two rows for each neighbour will come, to be bounded all at once.
  if (guess_ != nullptr && guess_->open()) capacity_ *= 2;
}

// Each row's upper bound counts once, when it is new.
void QueryThreshold::BoundNew() {
  constexpr size_t kMany = CertifiedRange::Rows::kCount;
  for (size_t i = bounded_; i < pending_.size();) {
    // Rows side by side are bounded by the same codes.
    const bool by_head = ByHead(pending_[i]);
    size_t end = i + 1;
    const size_t most = std::min(i + kMany, pending_.size());
    while (end < most && ByHead(pending_[end]) == by_head) ++end;
    BoundRows(i, end - i);
    i = end;
  }
  bounded_ = pending_.size();
  LowerToKthUpper();
}

void QueryThreshold::BoundRows(size_t first, size_t count) {
  const bool by_head = ByHead(pending_[first]);
  const CertifiedRange range(CodesOf(pending_[first]),
                             QueryOf(pending_[first]));
  if (queries_.codes().metric() == Metric::kInnerProduct) {
    for (size_t i = first; i < first + count; ++i) {
      const CertifiedRange::Bounds bounds =
          range.Of(PanelOf(pending_[i]), ScoreOf(pending_[i]));
      Bound(pending_[i], bounds.lower, bounds.upper);
    }
    return;
  }
  CertifiedRange::Rows rows;
  const CertifiedPanel* panel = nullptr;
  double width = 0;
  for (size_t i = 0; i < CertifiedRange::Rows::kCount; ++i) {
    // The last one over and over.
    const Pending& p = pending_[first + std::min(i, count - 1)];
    const CertifiedScore score = ScoreOf(p);
    if (panel != &PanelOf(p)) {
      panel = &PanelOf(p);
      width = range.WidthOf(*panel);
    }
    rows.a[i] = static_cast<double>(score.a);
    rows.b[i] = static_cast<double>(score.b);
    rows.ip[i] = score.ip;
    rows.width[i] = width;
  }
  double lower[CertifiedRange::Rows::kCount];
  double upper[CertifiedRange::Rows::kCount];
  range.OfMany(rows, lower, upper);
  for (size_t i = 0; i < count; ++i) {
    Pending& p = pending_[first + i];
    if (by_head) {
      lower[i] = head_->Lower(p.row() / CertifiedCodes::kPanelRows, lower[i]);
      upper[i] = head_->Upper(p.row(), upper[i]);
    }
    Bound(p, lower[i], upper[i]);
  }
}

// Tighter than the bounds of rows side by side.
double QueryThreshold::LowerOf(const Pending& p) const {
  const double lower =
      LowerBound(CodesOf(p), QueryOf(p), PanelOf(p), ScoreOf(p));
  if (!ByHead(p)) return lower;
  return head_->Lower(p.row() / CertifiedCodes::kPanelRows, lower);
}

void QueryThreshold::Bound(Pending& pending, double lower, double upper) {
  pending.lower = lower;
  if (upper < threshold_ && upper <= cut()) {
    uppers_.push_back(upper);
    most_upper_ = std::max(most_upper_, upper);
  }
  if (queries_.codes().slack().fault == CertifiedFault::kDeadRowsTestified &&
      rows_.live != nullptr &&
      (rows_.live[pending.row() / 64] >> (pending.row() % 64) & 1) == 0) {
    pending.lower = std::numeric_limits<double>::infinity();
  }
}

void QueryThreshold::LowerToKthUpper() {
  const size_t k = static_cast<size_t>(top_.k());
  if (uppers_.size() < k) return;
  const double kth = KthLeast(uppers_, k, most_upper_);
  Lower(kth);
  most_upper_ = kth;
  // Equal ones beyond the k-th say nothing new.
  size_t kept = 0;
  for (size_t i = 0; i < uppers_.size(); ++i) {
    const double upper = uppers_[i];
    uppers_[kept] = upper;
    kept += upper <= kth ? 1 : 0;
  }
  uppers_.resize(std::min(kept, k));
}

void QueryThreshold::DropRuledOut() {
  if (bounded_ < pending_.size()) BoundNew();
  Pending* const pending = pending_.data();
  size_t kept = 0;
  for (size_t i = 0; i < pending_.size(); ++i) {
    const Pending p = pending[i];
    pending[kept] = p;
    kept += RuledOut(p.lower) ? 0 : 1;
  }
  pending_.resize(kept);
  bounded_ = kept;
}

void QueryThreshold::CountWithin() {
  if (guess_ == nullptr || !guess_->open()) return;
  BoundNew();
  if (threshold_ <= guess_->value()) guess_->Confirm();
  guess_->AddWithin(static_cast<int64_t>(uppers_.size()));
}

bool QueryThreshold::Settle() {
  if (guess_ == nullptr) return true;
  if (guess_->open()) {
    if (threshold_ <= guess_->value()) {
      guess_->Confirm();
    } else if (pending_.size() >= MostPatience(top_.k())) {
      guess_->Fail();
    }
    if (guess_->open()) return false;
  }
  if (guess_->failed()) {
    pending_.clear();
    uppers_.clear();
    bounded_ = 0;
    return false;
  }
  Refresh();
  return true;
}

bool QueryThreshold::Shrink(absl::FunctionRef<bool(int64_t)> stop) {
  Refresh();
  DropRuledOut();
  if (!Settle()) {
    capacity_ = CapacityFor(pending_.size(), top_.k());
    return true;
  }
  if (pending_.size() >= patience_) {
    if (patience_ >= MostPatience(top_.k())) return Rescore(stop);
    if (!RescoreNearest(static_cast<size_t>(top_.k()), stop)) return false;
    DropRuledOut();
    if (2 * pending_.size() > patience_) patience_ *= 2;
  }
  if (shared_ != nullptr) shared_->Lower(threshold_);
  capacity_ = CapacityFor(pending_.size(), top_.k());
  return true;
}

bool QueryThreshold::Rescore(absl::FunctionRef<bool(int64_t)> stop) {
  if (!Settle()) return true;
  Refresh();
  DropRuledOut();
  // Hardly one of the k nearest by their bounds can be spared.
  const auto k = static_cast<size_t>(top_.k());
  if (pending_.size() > kSortedWhole) {
    if (!RescoreNearest(k, stop)) return false;
    DropRuledOut();
  }
  for (Pending& p : pending_) p.lower = std::max(p.lower, LowerOf(p));
  DropRuledOut();
  if (!RescoreAll(0, pending_.size(), /*rising=*/true, stop)) return false;
  pending_.clear();
  bounded_ = 0;
  capacity_ = CapacityFor(0, top_.k());
  if (shared_ != nullptr) shared_->Lower(threshold_);
  return true;
}

void QueryThreshold::Absorb(QueryThreshold& other) {
  BoundNew();
  other.BoundNew();
  Lower(other.threshold_);
  uppers_.insert(uppers_.end(), other.uppers_.begin(), other.uppers_.end());
  most_upper_ = std::max(most_upper_, other.most_upper_);
  LowerToKthUpper();
  pending_.insert(pending_.end(), other.pending_.begin(), other.pending_.end());
  bounded_ = pending_.size();
  other.pending_.clear();
  other.uppers_.clear();
  other.bounded_ = 0;
}

bool QueryThreshold::RescoreNearest(size_t count,
                                    absl::FunctionRef<bool(int64_t)> stop) {
  const size_t rest = pending_.size() - std::min(count, pending_.size());
  const auto split = pending_.begin() + static_cast<std::ptrdiff_t>(rest);
  // The nearest last, where they can be taken off.
  std::nth_element(
      pending_.begin(), split, pending_.end(),
      [](const Pending& a, const Pending& b) { return a.lower > b.lower; });
  if (!RescoreAll(rest, pending_.size(), /*rising=*/false, stop)) return false;
  pending_.resize(rest);
  bounded_ = rest;
  return true;
}

// In order of rising bound, or of rows, which memory likes better.
bool QueryThreshold::RescoreAll(size_t first, size_t end, bool rising,
                                absl::FunctionRef<bool(int64_t)> stop) {
  std::sort(pending_.begin() + static_cast<std::ptrdiff_t>(first),
            pending_.begin() + static_cast<std::ptrdiff_t>(end),
            [rising](const Pending& a, const Pending& b) {
              return rising && a.lower != b.lower ? a.lower < b.lower
                                                  : a.row() < b.row();
            });
  const size_t ahead = RowsAhead(rows_.rows.d);
  for (size_t i = first; i < std::min(first + ahead, end); ++i) {
    PrefetchRow(rows_.rows.row(pending_[i].row()));
  }
  int64_t rows[kRowsAtOnce];
  int count = 0;
  for (size_t i = first; i < end; ++i) {
    if (i + ahead < end) {
      PrefetchRow(rows_.rows.row(pending_[i + ahead].row()));
    }
    if (RuledOut(pending_[i].lower)) {
      if (rising) break;
      continue;
    }
    if (stop(rows_.rows.d * int64_t{sizeof(float)})) return false;
    rows[count++] = pending_[i].row();
    if (count == kRowsAtOnce) {
      Evaluate(rows, count);
      count = 0;
    }
  }
  if (count > 0) Evaluate(rows, count);
  return true;
}

void QueryThreshold::Evaluate(const int64_t* rows, int count) {
  const ScanQueries& queries = queries_.queries();
  const bool with_norms = queries.metric() != Metric::kSquaredL2;
  const float* vectors[kRowsAtOnce];
  double norms[kRowsAtOnce] = {};
  for (int i = 0; i < kRowsAtOnce; ++i) {
    // The last one over and over.
    const int64_t row = rows[std::min(i, count - 1)];
    vectors[i] = rows_.rows.row(row).data();
    if (with_norms) norms[i] = rows_.squared_norms[row];
  }
  double distances[kRowsAtOnce];
  CanonicalDistances(queries.metric(), queries.query(query_), vectors,
                     queries.squared_norm(query_), norms, distances);
  for (int i = 0; i < count; ++i) {
    top_.Offer({rows_.ids[rows[i]], distances[i]});
    if (queries_.codes().slack().fault == CertifiedFault::kCountTwice) {
      uppers_.push_back(distances[i]);
      most_upper_ = std::max(most_upper_, distances[i]);
      LowerToKthUpper();
    }
  }
  evaluated_ += count;
  Lower(top_.Threshold());
}

}  // namespace coterie::internal_certified
