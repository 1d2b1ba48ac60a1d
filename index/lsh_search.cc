#include <immintrin.h>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "index/certified_query.h"
#include "index/certified_scan.h"
#include "index/exact_scan.h"
#include "index/lsh.h"
#include "index/lsh_searcher.h"
#include "index/shared_threshold.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace coterie {

using internal_lsh::kInfinity;
using internal_lsh::LshSearcher;

namespace {

// Queries that a scan answers faster, with the thresholds found for them.
struct HandedOver {
  std::vector<int64_t> queries;
  std::vector<double> seeds;
};

bool Scan(const ScanQueries& all, const LshSegment& segment,
          const HandedOver& handed, absl::Span<TopK> tops,
          absl::Span<LshAccount> accounts, absl::FunctionRef<bool()> stop) {
  std::vector<float> data;
  std::vector<TopK> found;
  std::vector<SharedThreshold> shared(handed.queries.size());
  for (size_t i = 0; i < handed.queries.size(); ++i) {
    const VectorView query = all.query(handed.queries[i]);
    data.insert(data.end(), query.begin(), query.end());
    const TopK& top = tops[static_cast<size_t>(handed.queries[i])];
    found.emplace_back(top.k(), top.Threshold());
    shared[i].Lower(handed.seeds[i]);
  }
  const ScanQueries queries(
      all.metric(), {data.data(), static_cast<int64_t>(handed.queries.size()),
                     all.dimension(), all.dimension()});
  const CertifiedQueries coded(queries, *segment.codes);
  std::vector<ScanAccount> scanned(found.size());
  if (!CertifiedScan(coded, segment.rows, 0, segment.index->size(),
                     absl::MakeSpan(found), absl::MakeSpan(scanned), stop,
                     absl::MakeSpan(shared))) {
    return false;
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const size_t q = static_cast<size_t>(handed.queries[i]);
    for (const Neighbor& n : found[i].TakeSorted()) tops[q].Offer(n);
    accounts[q].evaluated += scanned[i].evaluated;
    accounts[q].ruled_out += scanned[i].ruled_out;
    accounts[q].scanned = true;
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
          handed.queries.push_back(q);
          handed.seeds.push_back(seed);
          break;
        case LshSearcher::Outcome::kDone:
          break;
      }
    }
    if (!handed.queries.empty() &&
        !Scan(queries, segment, handed, tops, accounts, stop)) {
      return false;
    }
  }
  return true;
}

}  // namespace coterie
