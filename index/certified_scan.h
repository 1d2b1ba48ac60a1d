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
// re-scored distance, the k-th least upper bound, or what other scans of the
// query have found (index/shared_threshold.h). Re-scoring waits until many rows
// have passed or the scan ends: the threshold is then near its last value. Rows
// should therefore be scanned in an order that makes the first ones like all.
// Precedents: VA-file (Weber, Schek, Blott, VLDB 1998), PQ Fast Scan (Andre,
// Kermarrec, Le Scouarnec, VLDB 2015).

#ifndef COTERIE_INDEX_CERTIFIED_SCAN_H_
#define COTERIE_INDEX_CERTIFIED_SCAN_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "index/certified_guess.h"
#include "index/certified_head.h"
#include "index/certified_plane.h"
#include "index/certified_query.h"
#include "index/exact_scan.h"
#include "index/shared_threshold.h"
#include "index/top_k.h"

namespace coterie {

// What a lone query asks instead of the codes where that pays; null: none.
struct FirstLook {
  const CertifiedPlane* plane = nullptr;
  const CertifiedHead* head = nullptr;
};

// One thread's scan of one segment, in as many pieces as suit it. Not
// thread-safe. Threads that scan disjoint pieces have a scanner and tops each.
class CertifiedScanner {
 public:
  // `rows` are those that queries.codes() was made from, tops[q] takes the
  // neighbours of query q; `shared`, empty or one a query, is what the scans of
  // a query lower together; `plane`, null or of the same codes, is asked
  // instead of the codes where that pays: by a fine query, once it has a
  // threshold. `head`, null or the only query, which is fine, against a head of
  // the same rows, is asked instead of both. `guesses`, empty or one a query,
  // are used while they are open; they need `shared`. All must outlive the
  // scanner, and tops stay in place. REQUIRES: as ExactScan, and fewer than
  // 2^31 rows. O(queries) memory.
  CertifiedScanner(const CertifiedQueries& queries, const ScanRows& rows,
                   absl::Span<TopK> tops,
                   absl::Span<SharedThreshold> shared = {},
                   const CertifiedPlane* plane = nullptr,
                   const CertifiedHeadQuery* head = nullptr,
                   absl::Span<GuessedThreshold> guesses = {});
  ~CertifiedScanner();
  CertifiedScanner(const CertifiedScanner&) = delete;
  CertifiedScanner& operator=(const CertifiedScanner&) = delete;

  // Rows [begin, end), each at most once in all; pieces that start and end at
  // multiples of CertifiedCodes::kPanelRows cost least.
  //
  // `stop` is asked first and then after every 256 KiB read, codes and
  // re-scored rows together; when it says true the scan ends and false is
  // returned: tops are then incomplete.
  //
  // Ties: rows at the k-th distance are all re-scored, so n equal rows cost a
  // canonical scan. O((end - begin) * d * queries) time; memory O(queries * k).
  bool Scan(int64_t begin, int64_t end, absl::FunctionRef<bool()> stop);

  // The query is wanted no more: pieces yet to come are scanned without it, at
  // no cost. Its top and account are then worthless.
  void Leave(int64_t query);

  // After the last piece: adds to each open guess the rows that it is for.
  void CountWithin();

  // Re-scores what is pending and adds to accounts[q]; to be called once, last.
  // False as above. REQUIRES: no guess is open. Of a query whose guess has
  // failed nothing is offered or added: its rows are to be scanned again.
  bool Finish(absl::Span<ScanAccount> accounts, absl::FunctionRef<bool()> stop);

  // The same for queries [first, first + count) of this scanner and of
  // `others`, which have scanned other rows of the same codes for the same
  // queries: what all have pending is re-scored once, for the tops of this one.
  // Threads may finish different queries at once, none any query twice.
  bool FinishWith(absl::Span<CertifiedScanner* const> others, int64_t first,
                  int64_t count, absl::Span<ScanAccount> accounts,
                  absl::FunctionRef<bool()> stop);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// As ExactScan: scans rows [begin, end) for all queries, offers what may be
// near to tops[q], adds to accounts[q]. A scanner of one piece.
bool CertifiedScan(const CertifiedQueries& queries, const ScanRows& rows,
                   int64_t begin, int64_t end, absl::Span<TopK> tops,
                   absl::Span<ScanAccount> accounts,
                   absl::FunctionRef<bool()> stop,
                   absl::Span<SharedThreshold> shared = {},
                   const CertifiedPlane* plane = nullptr,
                   const CertifiedHeadQuery* head = nullptr);

}  // namespace coterie

#endif  // COTERIE_INDEX_CERTIFIED_SCAN_H_
