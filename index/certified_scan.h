// The certified scan: the answer of ExactScan from a quarter of the memory
// traffic and integer arithmetic.
//
// 8-bit codes give every row a proven lower bound on its canonical distance
// (index/certified_bound.h). Rows whose bound lies strictly above a valid
// threshold are ruled out; the rest are re-scored from the float32 rows in
// order of rising lower bound and offered to the query's TopK. So the answer
// is a canonical scan's, byte for byte, for every kernel, tile shape, order
// and seed.
//
// A threshold t is valid if k distinct live rows have distance <= t: the k-th
// re-scored distance, the k-th least upper bound, or what the caller knows.
// Precedents: VA-file (Weber, Schek, Blott, VLDB 1998), PQ Fast Scan (Andre,
// Kermarrec, Le Scouarnec, VLDB 2015).

#ifndef COTERIE_INDEX_CERTIFIED_SCAN_H_
#define COTERIE_INDEX_CERTIFIED_SCAN_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "index/certified_query.h"
#include "index/exact_scan.h"
#include "index/top_k.h"

namespace coterie {

// As ExactScan: scans rows [begin, end) for all queries, offers what may be
// near to tops[q], adds to accounts[q]; `rows` are those that queries.codes()
// was made from. Threads may scan disjoint ranges with their own tops; ranges
// that start and end at multiples of CertifiedCodes::kPanelRows cost least.
//
// `seeds`, empty or one a query: an inclusive upper bound on the k-th distance
// of the final answer that the caller can prove (k live, admitted rows, here or
// elsewhere, are no farther). It prunes; it never enters the answer.
//
// `stop` is asked first and then after every 256 KiB read, codes and re-scored
// rows together; when it says true the scan ends and false is returned: tops
// and accounts are then incomplete.
//
// Ties: rows at the k-th distance are all re-scored, so n equal rows cost a
// canonical scan. REQUIRES: as ExactScan, and fewer than 2^31 rows.
// O((end - begin) * d * queries) time, O(queries * k) extra memory.
bool CertifiedScan(const CertifiedQueries& queries, const ScanRows& rows,
                   int64_t begin, int64_t end, absl::Span<TopK> tops,
                   absl::Span<ScanAccount> accounts,
                   absl::FunctionRef<bool()> stop,
                   absl::Span<const double> seeds = {});

}  // namespace coterie

#endif  // COTERIE_INDEX_CERTIFIED_SCAN_H_
