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

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "index/certified_query.h"
#include "index/exact_scan.h"
#include "index/top_k.h"

namespace coterie::internal_certified {

class QueryThreshold {
 public:
  // Bounds rows of `queries` query number `query`; results go to `top`.
  // `seed` as in CertifiedScan.
  QueryThreshold(const CertifiedQueries& queries, int64_t query,
                 const ScanRows& rows, double seed, TopK& top);

  // No row with a canonical distance <= this may be ruled out.
  double threshold() const { return threshold_; }

  // Takes a row that the kernel let pass. O(log k) if its upper bound counts.
  void Add(int64_t row, int32_t ip);

  // Too many rows are pending: Shrink() should be called.
  bool full() const { return pending_.size() >= capacity_; }

  // Drops pending rows that the threshold rules out by now and, if many are
  // left, re-scores. False if `stop` said so; it is told the bytes read.
  bool Shrink(absl::FunctionRef<bool(int64_t)> stop);

  // Re-scores pending rows by rising lower bound until the threshold rules out
  // the rest. None is pending then. False as above.
  bool Rescore(absl::FunctionRef<bool(int64_t)> stop);

  // Canonical distances computed so far.
  int64_t evaluated() const { return evaluated_; }

 private:
  struct Pending {
    double lower = 0;
    int32_t row = 0;
    int32_t ip = 0;
  };

  void AddUpper(double upper);
  bool RuledOut(double lower) const;
  void DropRuledOut();

  const CertifiedQueries& queries_;
  const int64_t query_;
  const ScanRows& rows_;
  TopK& top_;
  size_t capacity_;
  double threshold_;
  std::vector<double> uppers_;  // max-heap of the k least
  std::vector<Pending> pending_;
  size_t bounded_ = 0;  // pending_[0, bounded_) have their lower bound
  int64_t evaluated_ = 0;
};

}  // namespace coterie::internal_certified

#endif  // COTERIE_INDEX_CERTIFIED_THRESHOLD_H_
