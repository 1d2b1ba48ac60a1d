#include "index/certified_scan.h"

#include <immintrin.h>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/numeric/bits.h"
#include "absl/types/span.h"
#include "index/certified_bound.h"
#include "index/certified_codes.h"
#include "index/certified_dispatch.h"
#include "index/certified_kernels.h"
#include "index/certified_query.h"
#include "index/certified_slack.h"
#include "index/certified_threshold.h"
#include "index/exact_scan.h"
#include "index/top_k.h"

namespace coterie {

using internal_certified::BatchKernel;
using internal_certified::BatchKernelFor;
using internal_certified::CodeHit;
using internal_certified::CodeTile;
using internal_certified::FineKernel;
using internal_certified::FineKernelFor;
using internal_certified::kTileQueries;
using internal_certified::QueryThreshold;

namespace {

constexpr int64_t kStopBytes = 256 << 10;
// Codes that all tiles of queries go over before the next: should stay in L2.
constexpr int64_t kChunkBytes = 192 << 10;
constexpr int64_t kGroupRows = CertifiedCodes::kGroupRows;
constexpr int64_t kPanelRows = CertifiedCodes::kPanelRows;
constexpr int64_t kPanelGroups = kPanelRows / kGroupRows;

static_assert(kGroupRows == internal_certified::kGroupRows);

// Rows of one panel, from a multiple of kGroupRows on.
struct Chunk {
  int64_t row = 0;
  int64_t groups = 0;
  uint64_t live[kPanelGroups];
};

// One call of CertifiedScan.
class Scan {
 public:
  Scan(const CertifiedQueries& queries, const ScanRows& rows, int64_t begin,
       int64_t end, absl::Span<TopK> tops, absl::FunctionRef<bool()> stop,
       absl::Span<const double> seeds)
      : queries_(queries),
        codes_(queries.codes()),
        rows_(rows),
        begin_(begin),
        end_(end),
        stop_(stop),
        batch_(BatchKernelFor(queries.kernel())),
        fine_(FineKernelFor(queries.kernel())),
        fine_queries_(queries.depth() == CertifiedQueries::Depth::kFine),
        tile_queries_(fine_queries_ ? 1 : kTileQueries),
        cuts_(static_cast<size_t>(queries.size())) {
    thresholds_.reserve(cuts_.size());
    for (size_t q = 0; q < cuts_.size(); ++q) {
      const double seed =
          seeds.empty() ? std::numeric_limits<double>::infinity() : seeds[q];
      thresholds_.emplace_back(queries, static_cast<int64_t>(q), rows, seed,
                               tops[q]);
    }
    cut_a_.resize(cuts_.size());
    cut_b_.resize(cuts_.size());
    cut_k_.resize(cuts_.size());
    // A chunk is read again for every tile but the only one.
    const int64_t row_bytes = std::max<int64_t>(1, 4 * codes_.quads());
    max_groups_ =
        queries.size() <= tile_queries_
            ? kPanelGroups
            : std::clamp<int64_t>(kChunkBytes / (row_bytes * kGroupRows), 1,
                                  kPanelGroups);
    hits_.resize(static_cast<size_t>(max_groups_ * kGroupRows * tile_queries_));
  }

  // False if stopped.
  bool Run() {
    // Without a threshold every row of a chunk passes: begin with few rows.
    int64_t groups = max_groups_;
    for (const QueryThreshold& t : thresholds_) {
      if (!(t.threshold() < std::numeric_limits<double>::infinity())) {
        groups = 1;
      }
    }
    if (AskStop(kStopBytes)) return false;
    Chunk chunk;
    for (int64_t row = begin_ / kGroupRows * kGroupRows; row < end_;
         row += chunk.groups * kGroupRows) {
      FillChunk(row, groups, chunk);
      groups = std::min(2 * groups, max_groups_);
      for (int64_t q = 0; q < queries_.size(); q += tile_queries_) {
        if (!ScanTile(chunk, q)) return false;
      }
    }
    for (QueryThreshold& t : thresholds_) {
      if (!t.Rescore([this](int64_t bytes) { return AskStop(bytes); })) {
        return false;
      }
    }
    return true;
  }

  void AddTo(absl::Span<ScanAccount> accounts) const {
    for (size_t q = 0; q < accounts.size(); ++q) {
      accounts[q].evaluated += thresholds_[q].evaluated();
      accounts[q].ruled_out += live_rows_ - thresholds_[q].evaluated();
    }
  }

 private:
  // What the cut of a query was made for.
  struct CutKey {
    int64_t panel = -1;
    double threshold = 0;
  };

  bool AskStop(int64_t bytes) {
    unasked_bytes_ += bytes;
    if (unasked_bytes_ < kStopBytes) return false;
    unasked_bytes_ = 0;
    return stop_();
  }

  void FillChunk(int64_t row, int64_t groups, Chunk& chunk) {
    const int64_t panel_end = (row / kPanelRows + 1) * kPanelRows;
    const int64_t end = std::min(panel_end, end_);
    chunk.row = row;
    chunk.groups = std::min(groups, (end - row + kGroupRows - 1) / kGroupRows);
    for (int64_t g = 0; g < chunk.groups; ++g) {
      const int64_t first = row + g * kGroupRows;
      uint64_t word = ~uint64_t{0};
      if (rows_.live != nullptr) word = rows_.live[first / 64];
      if (first < begin_) word &= ~uint64_t{0} << (begin_ - first);
      if (end_ - first < kGroupRows) {
        word &= ~(~uint64_t{0} << (end_ - first));
      }
      live_rows_ += absl::popcount(word);
      if (codes_.slack().fault == CertifiedFault::kDeadRowsTestified) {
        word = ~uint64_t{0} >> std::max<int64_t>(0, first + 64 - end_);
      }
      chunk.live[g] = word;
    }
  }

  void RefreshCut(int64_t query, int64_t panel) {
    const size_t q = static_cast<size_t>(query);
    const double threshold = thresholds_[q].threshold();
    if (cuts_[q].panel == panel && cuts_[q].threshold == threshold) return;
    cuts_[q] = {panel, threshold};
    const CertifiedCut cut =
        CutFor(codes_, queries_.query(query), codes_.panel(panel), threshold);
    cut_a_[q] = cut.a;
    cut_b_[q] = cut.b;
    cut_k_[q] = cut.k;
  }

  bool ScanTile(const Chunk& chunk, int64_t first) {
    const int64_t count = std::min(tile_queries_, queries_.size() - first);
    const int64_t panel = chunk.row / kPanelRows;
    for (int64_t q = first; q < first + count; ++q) RefreshCut(q, panel);
    const CodeTile tile = {
        .codes = codes_.block(chunk.row),
        .groups = chunk.groups,
        .quads = codes_.quads(),
        .a = codes_.a(chunk.row),
        .b = codes_.b(chunk.row),
        .live = chunk.live,
        .queries = queries_.quads(first),
        .query_stride = queries_.quad_stride(),
        .starts = queries_.starts(first),
        .cut_a = cut_a_.data() + first,
        .cut_b = cut_b_.data() + first,
        .cut_k = cut_k_.data() + first,
    };
    const int64_t found = fine_queries_
                              ? fine_(tile, queries_.low_bits(), hits_.data())
                              : batch_(tile, count, hits_.data());
    const auto stop = [this](int64_t bytes) { return AskStop(bytes); };
    for (int64_t i = 0; i < found; ++i) {
      const CodeHit& hit = hits_[static_cast<size_t>(i)];
      QueryThreshold& t = thresholds_[static_cast<size_t>(first + hit.query)];
      t.Add(chunk.row + hit.row, hit.ip);
      if (t.full() && !t.Shrink(stop)) return false;
    }
    return !AskStop(chunk.groups * kGroupRows * 4 * codes_.quads());
  }

  const CertifiedQueries& queries_;
  const CertifiedCodes& codes_;
  const ScanRows& rows_;
  const int64_t begin_;
  const int64_t end_;
  const absl::FunctionRef<bool()> stop_;
  const BatchKernel batch_;
  const FineKernel fine_;
  const bool fine_queries_;
  const int64_t tile_queries_;
  int64_t max_groups_ = 1;
  int64_t unasked_bytes_ = 0;
  int64_t live_rows_ = 0;
  std::vector<QueryThreshold> thresholds_;
  std::vector<CutKey> cuts_;
  std::vector<float> cut_a_;
  std::vector<float> cut_b_;
  std::vector<float> cut_k_;
  std::vector<CodeHit> hits_;
};

}  // namespace

bool CertifiedScan(const CertifiedQueries& queries, const ScanRows& rows,
                   int64_t begin, int64_t end, absl::Span<TopK> tops,
                   absl::Span<ScanAccount> accounts,
                   absl::FunctionRef<bool()> stop,
                   absl::Span<const double> seeds) {
  assert(static_cast<int64_t>(tops.size()) == queries.size());
  assert(static_cast<int64_t>(accounts.size()) == queries.size());
  assert(seeds.empty() || seeds.size() == tops.size());
  assert(0 <= begin && begin <= end && end <= rows.rows.n);
  assert(rows.rows.n == queries.codes().size());
  assert(rows.rows.n <= std::numeric_limits<int32_t>::max());
  assert((_mm_getcsr() & 0x8040) == 0);  // DAZ and FTZ

  Scan scan(queries, rows, begin, end, tops, stop, seeds);
  if (!scan.Run()) return false;
  scan.AddTo(accounts);
  return true;
}

}  // namespace coterie
