// The threshold of one query and the rows that it has not decided on yet.
//
// Not thread-safe. Order of answers is (distance, id); a threshold may be early
// or stale, never too small.
//
// Invariants: (1) threshold() never rises, (2) a row is in `uppers_` at most
// once and only if it is live, (3) a row that was added is pending, re-scored,
// or has a lower bound strictly above threshold().

#ifndef COTERIE_INDEX_CERTIFIED_THRESHOLD_H_
#define COTERIE_INDEX_CERTIFIED_THRESHOLD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "index/certified_bound.h"
#include "index/certified_codes.h"
#include "index/certified_query.h"
#include "index/exact_scan.h"
#include "index/shared_threshold.h"
#include "index/top_k.h"

namespace coterie::internal_certified {

class QueryThreshold {
 public:
  // Bounds rows of `queries` query number `query`; results go to `top`.
  // `shared`, if not null, is lowered by what is found here, and obeyed.
  QueryThreshold(const CertifiedQueries& queries, int64_t query,
                 const ScanRows& rows, SharedThreshold* shared, TopK& top);

  // No row with a canonical distance <= this may be ruled out.
  double threshold() const { return threshold_; }

  // Takes over what other scans of the query have found.
  void Refresh() {
    if (shared_ != nullptr) Lower(shared_->value());
  }

  // Takes a row that the kernel let pass.
  void Add(int64_t row, int32_t ip) {
    const CertifiedCodes& codes = queries_.codes();
    pending_.push_back(
        {0, {*codes.a(row), *codes.b(row), ip}, static_cast<int32_t>(row)});
  }

  // Too many rows are pending: Shrink() should be called.
  bool full() const { return pending_.size() >= capacity_; }

  // Tightens the threshold by the upper bounds of rows that came since, drops
  // what it rules out and, if many are left, re-scores. False if `stop` said
  // so; it is told the bytes read. Constant amortised time a row.
  bool Shrink(absl::FunctionRef<bool(int64_t)> stop);

  // Re-scores pending rows by rising lower bound until the threshold rules out
  // the rest. None is pending then. False as above.
  bool Rescore(absl::FunctionRef<bool(int64_t)> stop);

  // Canonical distances computed so far.
  int64_t evaluated() const { return evaluated_; }

 private:
  struct Pending {
    double lower = 0;  // a bound on its distance, if among the bounded
    CertifiedScore score;
    int32_t row = 0;
  };
  // A row to be re-scored.
  struct Candidate {
    double lower = 0;  // a tighter bound
    int32_t row = 0;
  };

  void Lower(double threshold) {
    if (threshold < threshold_) threshold_ = threshold;
  }
  void BoundNew();
  void LowerToKthUpper();
  bool RuledOut(double lower) const;
  void DropRuledOut();

  const CertifiedQueries& queries_;
  const int64_t query_;
  const ScanRows& rows_;
  SharedThreshold* const shared_;
  TopK& top_;
  size_t capacity_;
  double threshold_;
  std::vector<double> uppers_;  // the k least, in any order
  std::vector<Pending> pending_;
  std::vector<Candidate> candidates_;  // scratch of Rescore
  size_t bounded_ = 0;                 // rows from here on are new
  int64_t evaluated_ = 0;
};

}  // namespace coterie::internal_certified

#endif  // COTERIE_INDEX_CERTIFIED_THRESHOLD_H_
