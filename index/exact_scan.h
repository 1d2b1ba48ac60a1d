// The exact scan: every live row is compared, or ruled out by a proven bound.
//
// A float32 kernel filters: its value v and a proven error e give a lower
// bound v - e <= canonical distance. Rows whose bound lies strictly above the
// query's threshold are ruled out; all others are re-scored canonically
// (index/distance.h) and offered to the query's TopK. So the answer equals a
// canonical scan's, for every SIMD target, tile shape and order of blocks.
//
// Bound, with v = 2^-24, n_s the longest chain of additions of the kernel:
//   SQUARED_L2     all terms >= 0, so |approx - D| <= (n_s + 3) v' D
//   INNER_PRODUCT  |approx - D| <= (n_s + 2) v' |q||x|
//   COSINE         filtered as inner product against 1 - D, scaled by norms
// plus an absolute term for subnormals; derivations stand in
// exact_scan_bound.h. A filter value that is not finite (overflow) never rules
// a row out.

#ifndef COTERIE_INDEX_EXACT_SCAN_H_
#define COTERIE_INDEX_EXACT_SCAN_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace coterie {

// Rows to scan. Read-only; may be scanned by many threads at once.
struct ScanRows {
  RowsView rows;
  // ids[i] is the identity of row i.
  const PointId* ids = nullptr;
  // Canonical squared norm of each row (CanonicalSquaredNorm); required for
  // INNER_PRODUCT and COSINE, ignored for SQUARED_L2.
  const double* squared_norms = nullptr;
  // Bit i of word i/64 set: row i is live, and admitted by the search's filter
  // (index/row_set.h). Null: all rows are. What is not admitted costs no
  // distance, and where many rows together are not, no reading either.
  const uint64_t* live = nullptr;
};

// Queries made ready for scanning: copied, padded, with their norms.
// Immutable after construction; any number of threads may share it.
class ScanQueries {
 public:
  // REQUIRES: every query passes ValidateVector(metric, .); d <= kMaxDimension.
  // O(n d).
  ScanQueries(Metric metric, RowsView queries);

  Metric metric() const { return metric_; }
  int64_t size() const { return n_; }
  int64_t dimension() const { return d_; }
  VectorView query(int64_t i) const { return view().row(i); }
  double squared_norm(int64_t i) const {
    return squared_norms_[static_cast<size_t>(i)];
  }
  // Rows start on cache lines and are zero from d up to the stride, a multiple
  // of 16; zero rows follow up to a multiple of 4 queries.
  RowsView view() const { return {data_.data()->floats, n_, d_, stride_}; }

 private:
  struct alignas(64) CacheLine {
    float floats[16] = {};
  };

  Metric metric_;
  int64_t n_;
  int64_t d_;
  int64_t stride_;
  std::vector<CacheLine> data_;
  std::vector<double> squared_norms_;
};

// What became of the live rows, per query: rows = evaluated + ruled_out.
struct ScanAccount {
  int64_t evaluated = 0;  // canonical distance computed
  int64_t ruled_out = 0;  // bound strictly above the threshold
};

// Scans rows [begin, end) for all queries, reading each row once per tile of
// queries, and offers survivors to tops[q]; adds to accounts[q].
// `stop` is asked first and then after every 256 KiB of rows that a tile of
// queries has read (well within a millisecond, whatever the batch); when it
// says true the scan ends and false is returned: tops and accounts are then
// incomplete. Threads may scan disjoint ranges with their own tops.
// REQUIRES: tops.size() == accounts.size() == queries.size(), equal
// dimensions, 0 <= begin <= end <= n, rows that pass ValidateVector, and no
// DAZ or FTZ in this thread (they would change canonical distances).
// O((end - begin) * d * queries) time; O(queries) extra memory.
bool ExactScan(const ScanQueries& queries, const ScanRows& rows, int64_t begin,
               int64_t end, absl::Span<TopK> tops,
               absl::Span<ScanAccount> accounts,
               absl::FunctionRef<bool()> stop);

}  // namespace coterie

#endif  // COTERIE_INDEX_EXACT_SCAN_H_
