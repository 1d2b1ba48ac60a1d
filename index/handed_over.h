// Queries that the search of an index leaves to the certified scan, which
// answers them sooner than it could go on.
//
// Belongs to one search. The answers are the scan's: exact.

#ifndef COTERIE_INDEX_HANDED_OVER_H_
#define COTERIE_INDEX_HANDED_OVER_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "index/certified_codes.h"
#include "index/certified_scan.h"
#include "index/exact_scan.h"
#include "index/top_k.h"

namespace coterie {

// Rows [0, size) and their codes.
struct ScannedSegment {
  const CertifiedCodes* codes = nullptr;
  FirstLook first_look;
  ScanRows rows;
  int64_t size = 0;
};

class HandedOver {
 public:
  // `seed`: k live rows of the query are this near, in all segments that are to
  // be scanned together; infinity: nothing is known.
  void Add(int64_t query, double seed) {
    queries_.push_back(query);
    seeds_.push_back(seed);
  }
  bool empty() const { return queries_.empty(); }
  // Numbers among all, in the order in which they were added.
  const std::vector<int64_t>& queries() const { return queries_; }

  // Scans the segments for them, a lone one by the first look that there is;
  // offers what is near to tops[q], and appends to `accounts` one for each.
  // False if `stop` says true, which is asked as in CertifiedScan. REQUIRES: as
  // CertifiedScan; `all` are the queries that the numbers are of, tops theirs.
  bool Scan(const ScanQueries& all, absl::Span<const ScannedSegment> segments,
            absl::Span<TopK> tops, std::vector<ScanAccount>* accounts,
            absl::FunctionRef<bool()> stop) const;

 private:
  std::vector<int64_t> queries_;
  std::vector<double> seeds_;
};

}  // namespace coterie

#endif  // COTERIE_INDEX_HANDED_OVER_H_
