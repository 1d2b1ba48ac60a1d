#include <immintrin.h>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "index/exact_scan.h"
#include "index/handed_over.h"
#include "index/lsh.h"
#include "index/lsh_searcher.h"
#include "index/top_k.h"

namespace coterie {

using internal_lsh::kInfinity;
using internal_lsh::LshSearcher;

namespace {

bool Scan(const ScanQueries& all, const LshSegment& segment,
          const HandedOver& handed, absl::Span<TopK> tops,
          absl::Span<LshAccount> accounts, absl::FunctionRef<bool()> stop) {
  const ScannedSegment scanned = {segment.codes, segment.first_look,
                                  segment.rows, segment.index->size()};
  std::vector<ScanAccount> found;
  if (!handed.Scan(all, {&scanned, 1}, tops, &found, stop)) return false;
  for (size_t i = 0; i < found.size(); ++i) {
    LshAccount& account = accounts[static_cast<size_t>(handed.queries()[i])];
    account.evaluated += found[i].evaluated;
    account.ruled_out += found[i].ruled_out;
    account.scanned = true;
  }
  return true;
}

}  // namespace

bool LshSearch(const ScanQueries& queries,
               absl::Span<const LshSegment> segments, const LshLimits& limits,
               absl::Span<TopK> tops, absl::Span<LshAccount> accounts,
               absl::FunctionRef<bool()> stop) {
  assert(static_cast<int64_t>(tops.size()) == queries.size());
  assert(static_cast<int64_t>(accounts.size()) == queries.size());
  assert((_mm_getcsr() & 0x8040) == 0);  // DAZ and FTZ
  if (stop()) return false;
  int64_t unasked_bytes = 0;
  for (const LshSegment& segment : segments) {
    LshSearcher searcher(queries, segment, limits, stop, unasked_bytes);
    HandedOver handed;
    for (int64_t q = 0; q < queries.size(); ++q) {
      const size_t at = static_cast<size_t>(q);
      double seed = kInfinity;
      switch (searcher.Run(q, tops[at], accounts[at], &seed)) {
        case LshSearcher::Outcome::kStopped:
          return false;
        case LshSearcher::Outcome::kScan:
          handed.Add(q, seed);
          break;
        case LshSearcher::Outcome::kDone:
          break;
      }
    }
    if (!handed.empty() &&
        !Scan(queries, segment, handed, tops, accounts, stop)) {
      return false;
    }
  }
  return true;
}

}  // namespace coterie
