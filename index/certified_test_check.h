// Checks every bound of the certified scan on every pair of a data set. For
// tests; not thread-safe.

#ifndef COTERIE_INDEX_CERTIFIED_TEST_CHECK_H_
#define COTERIE_INDEX_CERTIFIED_TEST_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "index/certified_bound.h"
#include "index/certified_codes.h"
#include "index/certified_query.h"
#include "index/certified_slack.h"
#include "index/certified_test_data.h"
#include "index/code_simd.h"
#include "index/exact_scan.h"
#include "index/metric.h"

namespace coterie {

struct CertifiedLosses {
  int64_t pairs = 0;
  // A kernel dropped a row at a threshold of its own canonical distance.
  int64_t own = 0;
  // A kernel dropped a row no farther than the k-th of its query.
  int64_t kth = 0;
  int64_t lower = 0;  // LowerBound above the canonical distance
  int64_t upper = 0;  // UpperBound below it
  // The plane dropped a row at a threshold of its own distance.
  int64_t plane = 0;
  std::string first;  // what went wrong first

  int64_t rows() const { return own + kth + plane; }
  int64_t all() const { return rows() + lower + upper; }
};

// One data set under one metric, with its canonical distances.
class CertifiedCheck {
 public:
  // `data` must outlive this object.
  CertifiedCheck(const CertifiedTestData& data, Metric metric);

  // Adds to `losses` what `kernel` gets wrong with codes and queries made with
  // `slack`. REQUIRES: the CPU has `kernel`.
  void Run(const CertifiedSlack& slack, CodeKernel kernel,
           CertifiedQueries::Depth depth, CertifiedLosses& losses) const;

 private:
  double Distance(int64_t query, int64_t row) const;
  void CheckOwn(const CertifiedQueries& queries, int64_t row,
                CertifiedLosses& losses) const;
  void CheckPlane(const CertifiedQueries& queries,
                  CertifiedLosses& losses) const;
  void CheckKth(const CertifiedQueries& queries, int64_t query,
                CertifiedLosses& losses) const;
  void CheckBounds(const CertifiedQueries& queries, const CertifiedPanel& panel,
                   const CertifiedScore& score, int64_t query, int64_t row,
                   CertifiedLosses& losses) const;
  void Note(const CertifiedQueries& queries, const char* what, int64_t query,
            int64_t row, int64_t& count, CertifiedLosses& losses) const;

  const CertifiedTestData& data_;
  const Metric metric_;
  const ScanQueries queries_;
  std::vector<double> distances_;  // query-major
};

}  // namespace coterie

#endif  // COTERIE_INDEX_CERTIFIED_TEST_CHECK_H_
