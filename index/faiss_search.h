// Searches by FAISS indexes (index/faiss_index.h): candidates are re-scored
// canonically, so distances and order are ours.

#ifndef COTERIE_INDEX_FAISS_SEARCH_H_
#define COTERIE_INDEX_FAISS_SEARCH_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "index/certified_codes.h"
#include "index/certified_scan.h"
#include "index/exact_scan.h"
#include "index/faiss_index.h"
#include "index/top_k.h"

namespace coterie {

// How far a search goes.
struct FaissLimits {
  // The share of the k nearest to be found, in expectation, as measured when
  // the index was built. 1 scans. Of no account if `effort` is given.
  double target_recall = 0.9;
  // Lists to read (nprobe), or the width of the way through a graph (efSearch);
  // 0: what the target takes.
  int64_t effort = 0;
  // Candidates, per query and segment; 0: what the target takes, or the code
  // of the rows if `effort` is given. At least k.
  int64_t rescored = 0;
};

// What became of the live rows of one query: rows = evaluated + ruled_out +
// unseen.
struct FaissAccount {
  int64_t evaluated = 0;
  int64_t ruled_out = 0;  // by the certified scan
  int64_t unseen = 0;
  bool scanned = false;  // at least in one segment

  bool exact() const { return unseen == 0; }
};

// A part of the data.
struct FaissSegment {
  const FaissIndex* index = nullptr;
  const CertifiedCodes* codes = nullptr;
  ScanRows rows;
  FirstLook first_look;  // of the same rows, for a scan
};

// Searches each segment for each query, offers candidates to tops[q] and adds
// to accounts[q]. Rows that died since the index was built are made up for:
// among n rows of which m live it looks for k n / m.
//
// The certified scan takes over, and the answer is exact, where it was not
// measured how to reach the target, or less than half of the rows live or pass
// a filter, of which the measurement does not tell; where half of the live rows
// and more would be re-scored, and where FAISS names fewer rows than k although
// more live.
//
// `stop` is asked before each query and segment, now and then by FAISS, and as
// in CertifiedScan; when it says true, CANCELLED. INTERNAL with FAISS's words.
// The same answers whatever the batch. REQUIRES: as CertifiedScan; metric and
// dimension agree throughout.
absl::Status FaissSearch(const ScanQueries& queries,
                         absl::Span<const FaissSegment> segments,
                         const FaissLimits& limits, absl::Span<TopK> tops,
                         absl::Span<FaissAccount> accounts,
                         absl::FunctionRef<bool()> stop);

}  // namespace coterie

#endif  // COTERIE_INDEX_FAISS_SEARCH_H_
