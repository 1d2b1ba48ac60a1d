// The threshold of one query and the rows that it has not decided on yet.
//
// Not thread-safe. Order of answers is (distance, id); a threshold may be early
// or stale, never too small.
//
// Invariants: (1) threshold() never rises, (2) a row is in `uppers_` at most
// once and only if it is live, (3) a row that was added is pending, re-scored,
// or has a lower bound strictly above threshold() or, while that is not
// decided, the guess, (4) before a guess is confirmed nothing is re-scored.

#ifndef COTERIE_INDEX_CERTIFIED_THRESHOLD_H_
#define COTERIE_INDEX_CERTIFIED_THRESHOLD_H_

#include <algorithm>
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
#include "index/exact_scan.h"
#include "index/shared_threshold.h"
#include "index/top_k.h"

namespace coterie::internal_certified {

class QueryThreshold {
 public:
  // Bounds rows of `queries` query number `query`; results go to `top`.
  // `shared`, if not null, is lowered by what is found here, and obeyed.
  // For AddFirst `plane`, of the same codes, or `head`, the query against that
  // of the same rows, is needed: not both. `guess` may be null, and needs
  // `shared`.
  QueryThreshold(const CertifiedQueries& queries, int64_t query,
                 const ScanRows& rows, SharedThreshold* shared, TopK& top,
                 const CertifiedPlane* plane = nullptr,
                 const CertifiedHeadQuery* head = nullptr,
                 GuessedThreshold* guess = nullptr);

  // No row with a canonical distance <= this may be ruled out.
  double threshold() const { return threshold_; }

  // What rows are ruled out by: the threshold, or a guess that may turn out to
  // be one; what has failed takes no rows at all.
  double cut() const {
    if (guess_ == nullptr) return threshold_;
    return guess_->failed() ? -std::numeric_limits<double>::infinity()
                            : std::min(threshold_, guess_->value());
  }
  bool failed() const { return guess_ != nullptr && guess_->failed(); }

  // Takes over what other scans of the query have found.
  void Refresh() {
    if (shared_ != nullptr) Lower(shared_->value());
    if (guess_ != nullptr && guess_->confirmed()) Lower(guess_->value());
  }

  // All rows have come: if the guess is still open, adds those known to lie
  // within it.
  void CountWithin();

  // Takes a row that the kernel let pass, with its score.
  void Add(int64_t row, int32_t ip) {
    pending_.push_back({0, Tag(row, 0), ip});
  }
  // The same with the score of the plane or the head.
  void AddFirst(int64_t row, int32_t ip) {
    pending_.push_back({0, Tag(row, kFirst), ip});
  }

  // Too many rows are pending: Shrink() should be called.
  bool full() const { return pending_.size() >= capacity_; }

  // Tightens the threshold by the upper bounds of rows that came since, drops
  // what it rules out and, if many are left, re-scores the nearest of them.
  // False if `stop` said so; it is told the bytes read. Constant amortised time
  // a row.
  bool Shrink(absl::FunctionRef<bool(int64_t)> stop);

  // Re-scores pending rows by rising lower bound until the threshold rules out
  // the rest. None is pending then. False as above. REQUIRES: no open guess;
  // if it has failed nothing is re-scored.
  bool Rescore(absl::FunctionRef<bool(int64_t)> stop);

  // Takes over what `other`, of other rows of the same query, has pending.
  void Absorb(QueryThreshold& other);

  // Canonical distances computed so far.
  int64_t evaluated() const { return evaluated_; }

 private:
  static constexpr uint32_t kFirst = uint32_t{1} << 31;

  struct Pending {
    double lower;  // a bound on its distance, if among the bounded
    uint32_t tag;  // the row; kFirst: `ip` is from the plane or the head
    int32_t ip;

    int64_t row() const { return tag & ~kFirst; }
    bool first() const { return (tag & kFirst) != 0; }
  };

  static uint32_t Tag(int64_t row, uint32_t first) {
    return static_cast<uint32_t>(row) | first;
  }
  bool ByHead(const Pending& p) const { return head_ != nullptr && p.first(); }
  bool ByPlane(const Pending& p) const { return head_ == nullptr && p.first(); }
  // The codes that its score is of, and what they are asked.
  const CertifiedCodes& CodesOf(const Pending& p) const {
    return ByHead(p) ? head_->head().codes() : queries_.codes();
  }
  const CertifiedQuery& QueryOf(const Pending& p) const {
    return ByHead(p) ? head_->coded().query(0) : queries_.query(query_);
  }
  const CertifiedPanel& PanelOf(const Pending& p) const {
    const int64_t panel = p.row() / CertifiedCodes::kPanelRows;
    return ByPlane(p) ? plane_->panel(panel) : CodesOf(p).panel(panel);
  }
  CertifiedScore ScoreOf(const Pending& p) const {
    const CertifiedCodes& codes = CodesOf(p);
    return {*(ByPlane(p) ? plane_->a(p.row()) : codes.a(p.row())),
            *(ByPlane(p) ? plane_->b(p.row()) : codes.b(p.row())), p.ip};
  }
  double LowerOf(const Pending& p) const;
  void Lower(double threshold) {
    if (threshold < threshold_) threshold_ = threshold;
  }
  void BoundNew();
  void BoundRows(size_t first, size_t count);
  void Bound(Pending& pending, double lower, double upper);
  void LowerToKthUpper();
  // Whether the rows may be re-scored.
  bool Settle();
  // Strictly: a row at the threshold may win by its id.
  bool RuledOut(double lower) const {
    return lower > threshold_ || (prunes_ties_ && lower == threshold_);
  }
  void DropRuledOut();
  // These re-score rows of pending_[first, end); those that the threshold
  // rules out meanwhile are left out. False as above.
  bool RescoreNearest(size_t count, absl::FunctionRef<bool(int64_t)> stop);
  bool RescoreAll(size_t first, size_t end, bool rising,
                  absl::FunctionRef<bool(int64_t)> stop);
  // Re-scores 1 to kRowsAtOnce rows.
  void Evaluate(const int64_t* rows, int count);

  const CertifiedQueries& queries_;
  const int64_t query_;
  const ScanRows& rows_;
  SharedThreshold* const shared_;
  TopK& top_;
  const CertifiedPlane* const plane_;
  const CertifiedHeadQuery* const head_;
  GuessedThreshold* const guess_;
  const bool prunes_ties_;  // CertifiedFault::kPruneTies
  size_t capacity_;
  size_t patience_;
  double threshold_;
  std::vector<double> uppers_;  // the k least, in any order
  // None of them is above.
  double most_upper_ = -std::numeric_limits<double>::infinity();
  std::vector<Pending> pending_;
  size_t bounded_ = 0;  // rows from here on are new
  int64_t evaluated_ = 0;
};

}  // namespace coterie::internal_certified

#endif  // COTERIE_INDEX_CERTIFIED_THRESHOLD_H_
