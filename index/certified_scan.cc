#include "index/certified_scan.h"

#include <immintrin.h>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/numeric/bits.h"
#include "absl/types/span.h"
#include "index/certified_bound.h"
#include "index/certified_chunk.h"
#include "index/certified_codes.h"
#include "index/certified_dispatch.h"
#include "index/certified_guess.h"
#include "index/certified_head.h"
#include "index/certified_kernels.h"
#include "index/certified_look.h"
#include "index/certified_plane.h"
#include "index/certified_query.h"
#include "index/certified_slack.h"
#include "index/certified_threshold.h"
#include "index/exact_scan.h"
#include "index/shared_threshold.h"
#include "index/top_k.h"

namespace coterie {

using internal_certified::BatchKernel;
using internal_certified::BatchKernelFor;
using internal_certified::CodeChunk;
using internal_certified::CodeChunks;
using internal_certified::CodeHit;
using internal_certified::CodeTile;
using internal_certified::FineKernel;
using internal_certified::FineKernelFor;
using internal_certified::kTileQueries;
using internal_certified::LookJudge;
using internal_certified::PlaneKernel;
using internal_certified::PlaneKernelFor;
using internal_certified::PlaneTile;
using internal_certified::QueryThreshold;

namespace {

constexpr int64_t kStopBytes = 256 << 10;
// Queries that go over a piece together, a multiple of kTileQueries: what is
// known of each should stay in L2 beside the codes.
constexpr size_t kCompany = 96;
// Codes that all tiles of queries go over before the next: should stay in L2.
constexpr int64_t kChunkBytes = 192 << 10;
constexpr int64_t kGroupRows = CertifiedCodes::kGroupRows;
constexpr int64_t kPanelRows = CertifiedCodes::kPanelRows;
constexpr int64_t kPanelGroups = kPanelRows / kGroupRows;
// Neighbours from which on half codes tell too few rows apart: what they let
// pass takes longer to be re-scored than codes to be read.
constexpr int64_t kPlaneNeighbors = 128;
// The same for a head, as a share of the rows: one of so many.
constexpr int64_t kHeadShare = 100;
// Panels that a coarse query's cut is made for, by their maxima.
constexpr int64_t kCutPanels = 4;

static_assert(kGroupRows == internal_certified::kGroupRows);

}  // namespace

class CertifiedScanner::Impl {
 public:
  Impl(const CertifiedQueries& queries, const ScanRows& rows,
       absl::Span<TopK> tops, absl::Span<SharedThreshold> shared,
       const CertifiedPlane* plane, const CertifiedHeadQuery* head,
       absl::Span<GuessedThreshold> guesses)
      : queries_(queries),
        codes_(queries.codes()),
        rows_(rows),
        chunks_(rows_, codes_),
        batch_(BatchKernelFor(queries.kernel())),
        fine_(FineKernelFor(queries.kernel())),
        fine_queries_(queries.depth() == CertifiedQueries::Depth::kFine),
        plane_(fine_queries_ && head == nullptr &&
                       tops[0].k() <= kPlaneNeighbors
                   ? plane
                   : nullptr),
        plane_kernel_(PlaneKernelFor(queries.kernel())),
        head_(head != nullptr && tops[0].k() <= rows.rows.n / kHeadShare
                  ? head
                  : nullptr),
        tile_queries_(fine_queries_ ? 1 : kTileQueries),
        left_(tops.size()),
        scanned_(tops.size()),
        quads_(queries.size() > 0 ? queries.quads(0) : nullptr),
        starts_(queries.size() > 0 ? queries.starts(0) : nullptr),
        cuts_(tops.size()),
        cut_a_(tops.size()),
        cut_b_(tops.size()),
        cut_k_(tops.size()) {
    thresholds_.reserve(tops.size());
    for (size_t q = 0; q < tops.size(); ++q) {
      thresholds_.emplace_back(queries, static_cast<int64_t>(q), rows_,
                               shared.empty() ? nullptr : &shared[q], tops[q],
                               plane_, head_,
                               guesses.empty() ? nullptr : &guesses[q]);
      scanned_[q] = static_cast<int64_t>(q);
    }
    ChooseChunk();
    MergePanels();
  }

  // False if stopped.
  bool Scan(int64_t begin, int64_t end, absl::FunctionRef<bool()> stop) {
    assert(0 <= begin && begin <= end && end <= rows_.rows.n);
    const Stop stopped{&unasked_bytes_, stop};
    if (stopped(kStopBytes)) return false;
    if (packed_is_stale_) Pack();
    for (size_t i = 0; i == 0 || i < scanned_.size(); i += kCompany) {
      const size_t last = std::min(i + kCompany, scanned_.size());
      if (!ScanFor(i, last, begin, end, stopped)) return false;
    }
    return true;
  }

  void Leave(int64_t query) {
    const auto at = std::find(scanned_.begin(), scanned_.end(), query);
    if (at == scanned_.end()) return;
    scanned_.erase(at);
    left_[static_cast<size_t>(query)] = true;
    packed_is_stale_ = true;
  }

  void CountWithin() {
    for (const int64_t query : scanned_) {
      thresholds_[static_cast<size_t>(query)].CountWithin();
    }
  }

  bool Finish(absl::Span<CertifiedScanner* const> others, int64_t first,
              int64_t count, absl::Span<ScanAccount> accounts,
              absl::FunctionRef<bool()> stop) {
    int64_t unasked_bytes = 0;
    const Stop stopped{&unasked_bytes, stop};
    for (auto q = static_cast<size_t>(first);
         q < static_cast<size_t>(first + count); ++q) {
      QueryThreshold& mine = thresholds_[q];
      if (left_[q] || mine.failed()) continue;
      int64_t live_rows = live_rows_;
      int64_t evaluated = 0;
      for (CertifiedScanner* other : others) {
        QueryThreshold& its = other->impl_->thresholds_[q];
        live_rows += other->impl_->live_rows_;
        evaluated += its.evaluated();
        mine.Absorb(its);
      }
      if (!mine.Rescore(stopped)) return false;
      evaluated += mine.evaluated();
      accounts[q].evaluated += evaluated;
      accounts[q].ruled_out += live_rows - evaluated;
    }
    return true;
  }

 private:
  // What the cut of a query was made for.
  struct CutKey {
    int64_t panel = -1;
    double threshold = 0;
  };

  // Told the bytes read, asks when they are many.
  struct Stop {
    int64_t* unasked_bytes;
    absl::FunctionRef<bool()> ask;
    bool operator()(int64_t bytes) const {
      *unasked_bytes += bytes;
      if (*unasked_bytes < kStopBytes) return false;
      *unasked_bytes = 0;
      return ask();
    }
  };

  void MergePanels() {
    const int64_t count = (codes_.size() + kPanelRows - 1) / kPanelRows;
    cut_panels_ = fine_queries_ ? 1 : kCutPanels;
    panels_.resize(
        static_cast<size_t>((count + cut_panels_ - 1) / cut_panels_));
    for (int64_t i = 0; i < count; ++i) {
      const CertifiedPanel& from = codes_.panel(i);
      CertifiedPanel& to = panels_[static_cast<size_t>(i / cut_panels_)];
      to.code_error = std::max(to.code_error, from.code_error);
      to.code_norm = std::max(to.code_norm, from.code_norm);
      to.error = std::max(to.error, from.error);
      to.a = std::max(to.a, from.a);
    }
  }

  void ChooseChunk() {
    // A chunk is read again for every tile but the only one.
    const int64_t row_bytes = std::max<int64_t>(1, 4 * codes_.quads());
    max_groups_ =
        queries_.size() <= tile_queries_
            ? kPanelGroups
            : std::clamp<int64_t>(kChunkBytes / (row_bytes * kGroupRows), 1,
                                  kPanelGroups);
    hits_.resize(static_cast<size_t>(max_groups_ * kGroupRows * tile_queries_));
  }

  // Scans rows [begin, end) for the queries scanned from the first-th up to the
  // last-th. Rows count as seen the first time.
  bool ScanFor(size_t first, size_t last, int64_t begin, int64_t end,
               const Stop& stop) {
    int64_t groups = FirstGroups(first, last);
    CodeChunk chunk;
    int64_t live_rows = 0;
    for (int64_t row = chunks_.FirstLive(begin / kGroupRows * kGroupRows, end);
         row < end;
         row = chunks_.FirstLive(row + chunk.groups * kGroupRows, end)) {
      live_rows += chunks_.Fill(row, groups, begin, end, chunk);
      groups = std::min(2 * groups, max_groups_);
      for (size_t i = first; i < last;
           i += static_cast<size_t>(tile_queries_)) {
        if (!ScanTile(chunk, i, last, stop)) return false;
      }
    }
    if (first == 0) live_rows_ += live_rows;
    return true;
  }

  // Without a threshold every row of a chunk passes: begin with few rows.
  int64_t FirstGroups(size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      QueryThreshold& t = thresholds_[static_cast<size_t>(scanned_[i])];
      t.Refresh();
      if (!(t.cut() < std::numeric_limits<double>::infinity())) return 1;
    }
    return max_groups_;
  }

  // Copies the codes of the queries that are still scanned, in their order.
  void Pack() {
    const int64_t parts = fine_queries_ ? 2 : 1;
    const int64_t stride = parts * queries_.quad_stride();
    packed_quads_.clear();
    packed_starts_.clear();
    for (const int64_t query : scanned_) {
      const int32_t* quads = queries_.quads(query);
      packed_quads_.insert(packed_quads_.end(), quads, quads + stride);
      const int32_t* starts = queries_.starts(query);
      packed_starts_.insert(packed_starts_.end(), starts, starts + parts);
    }
    quads_ = packed_quads_.data();
    starts_ = packed_starts_.data();
    cuts_.assign(scanned_.size(), CutKey());
    packed_is_stale_ = false;
  }

  // The cut of the i-th query scanned. Cuts of many queries are shared by
  // several panels, as making them takes time.
  void RefreshCut(size_t i, int64_t chunk_panel) {
    const int64_t panel = chunk_panel / cut_panels_;
    const int64_t query = scanned_[i];
    QueryThreshold& t = thresholds_[static_cast<size_t>(query)];
    t.Refresh();
    const double threshold = t.cut();
    if (cuts_[i].panel == panel && cuts_[i].threshold == threshold) return;
    cuts_[i] = {panel, threshold};
    const CertifiedCut cut =
        CutFor(codes_, queries_.query(query),
               panels_[static_cast<size_t>(panel)], threshold);
    cut_a_[i] = cut.a;
    cut_b_[i] = cut.b;
    cut_k_[i] = cut.k;
  }

  // The codes that tile number `index` of a chunk asks for: the first two ask
  // for half of the next chunk each.
  const uint8_t* Ahead(const CodeChunk& chunk, int64_t index) const {
    if (static_cast<int64_t>(scanned_.size()) <= tile_queries_) return nullptr;
    const int64_t bytes = chunk.groups * kGroupRows * 4 * codes_.quads();
    return codes_.block(chunk.row) + bytes + index % 2 * bytes / 2;
  }

  // Whether to ask plane or head instead of the codes.
  bool LookFirst(size_t i) {
    if (plane_ == nullptr && head_ == nullptr) return false;
    if (!look_.Pays()) return false;
    // Without a threshold the plane would let pass every row, with a poor upper
    // bound.
    return head_ != nullptr ||
           cuts_[i].threshold < std::numeric_limits<double>::infinity();
  }

  int64_t ScanHead(const CodeChunk& chunk) {
    const int64_t panel = chunk.row / kPanelRows;
    const CertifiedCodes& codes = head_->head().codes();
    const CertifiedQueries& coded = head_->coded();
    const CertifiedCut cut =
        CutFor(codes, coded.query(0), codes.panel(panel),
               head_->ThresholdFor(panel, thresholds_[0].cut()));
    const CodeTile tile = {
        .codes = codes.block(chunk.row),
        .groups = chunk.groups,
        .quads = codes.quads(),
        .a = codes.a(chunk.row),
        .b = codes.b(chunk.row),
        .live = chunk.live,
        .queries = coded.quads(0),
        .query_stride = coded.quad_stride(),
        .starts = coded.starts(0),
        .cut_a = &cut.a,
        .cut_b = &cut.b,
        .cut_k = &cut.k,
        .ahead = nullptr,
    };
    const int64_t found = fine_(tile, coded.low_bits(), hits_.data());
    // Every other time to be re-scored.
    return look_.Judge(
        found, 800 + 8 * codes_.quads(),
        chunk.groups * kGroupRows * 4 * (codes_.quads() - codes.quads()));
  }

  int64_t ScanPlane(const CodeChunk& chunk, const CodeTile& tile,
                    int64_t query) {
    const CertifiedCut cut = CutFor(
        codes_, queries_.query(query), plane_->panel(chunk.row / kPanelRows),
        thresholds_[static_cast<size_t>(query)].cut());
    const PlaneTile half = {
        .lines = plane_->block(chunk.row),
        .groups = chunk.groups,
        .quads = tile.quads,
        .a = plane_->a(chunk.row),
        .b = plane_->b(chunk.row),
        .live = chunk.live,
        .queries = tile.queries,
        .query_stride = tile.query_stride,
        .starts = {tile.starts[0] / 128 * 15, tile.starts[1] / 128 * 15},
        .cut_a = cut.a,
        .cut_b = cut.b,
        .cut_k = cut.k,
    };
    // Mostly to be re-scored, at a place that memory does not expect.
    return look_.Judge(plane_kernel_(half, queries_.low_bits(), hits_.data()),
                       800 + 96 * codes_.quads(),
                       chunk.groups * kGroupRows * 2 * codes_.quads());
  }

  bool ScanTile(const CodeChunk& chunk, size_t first, size_t last,
                const Stop& stop) {
    const int64_t count =
        std::min(tile_queries_, static_cast<int64_t>(last - first));
    const int64_t panel = chunk.row / kPanelRows;
    for (int64_t i = 0; i < count; ++i) {
      RefreshCut(first + static_cast<size_t>(i), panel);
    }
    const int64_t parts = fine_queries_ ? 2 : 1;
    const auto at = static_cast<int64_t>(first);
    const CodeTile tile = {
        .codes = codes_.block(chunk.row),
        .groups = chunk.groups,
        .quads = codes_.quads(),
        .a = codes_.a(chunk.row),
        .b = codes_.b(chunk.row),
        .live = chunk.live,
        .queries = quads_ + at * parts * queries_.quad_stride(),
        .query_stride = queries_.quad_stride(),
        .starts = starts_ + at * parts,
        .cut_a = cut_a_.data() + at,
        .cut_b = cut_b_.data() + at,
        .cut_k = cut_k_.data() + at,
        .ahead = Ahead(chunk, at / tile_queries_),
    };
    int64_t found = -1;
    if (fine_queries_ && LookFirst(first)) {
      found = head_ != nullptr ? ScanHead(chunk)
                               : ScanPlane(chunk, tile, scanned_[first]);
    }
    const bool look = found >= 0;
    if (!look) {
      found = fine_queries_ ? fine_(tile, queries_.low_bits(), hits_.data())
                            : batch_(tile, count, hits_.data());
    }
    for (int64_t i = 0; i < found; ++i) {
      const CodeHit& hit = hits_[static_cast<size_t>(i)];
      QueryThreshold& t =
          thresholds_[static_cast<size_t>(scanned_[first + hit.query])];
      const int64_t row = chunk.row + hit.row;
      look ? t.AddFirst(row, hit.ip) : t.Add(row, hit.ip);
      if (t.full() && !t.Shrink(stop)) return false;
    }
    return !stop(chunk.groups * kGroupRows * 4 * codes_.quads());
  }

  const CertifiedQueries& queries_;
  const CertifiedCodes& codes_;
  const ScanRows rows_;
  const CodeChunks chunks_;
  const BatchKernel batch_;
  const FineKernel fine_;
  const bool fine_queries_;
  const CertifiedPlane* const plane_;
  const PlaneKernel plane_kernel_;
  const CertifiedHeadQuery* const head_;
  LookJudge look_;  // at plane or head
  const int64_t tile_queries_;
  int64_t max_groups_ = 1;
  int64_t unasked_bytes_ = 0;
  int64_t live_rows_ = 0;
  std::vector<QueryThreshold> thresholds_;  // by query
  std::vector<bool> left_;                  // by query
  // Queries that have not left. The vectors below go by place in it.
  std::vector<int64_t> scanned_;
  const int32_t* quads_;
  const int32_t* starts_;
  std::vector<int32_t> packed_quads_;
  std::vector<int32_t> packed_starts_;
  bool packed_is_stale_ = false;
  int64_t cut_panels_ = 1;
  std::vector<CertifiedPanel> panels_;  // maxima over cut_panels_ each
  std::vector<CutKey> cuts_;
  std::vector<float> cut_a_;
  std::vector<float> cut_b_;
  std::vector<float> cut_k_;
  std::vector<CodeHit> hits_;
};

CertifiedScanner::CertifiedScanner(const CertifiedQueries& queries,
                                   const ScanRows& rows, absl::Span<TopK> tops,
                                   absl::Span<SharedThreshold> shared,
                                   const CertifiedPlane* plane,
                                   const CertifiedHeadQuery* head,
                                   absl::Span<GuessedThreshold> guesses) {
  assert(static_cast<int64_t>(tops.size()) == queries.size());
  assert(shared.empty() || shared.size() == tops.size());
  assert(guesses.empty() || guesses.size() == shared.size());
  assert(rows.rows.n == queries.codes().size());
  assert(rows.rows.n <= std::numeric_limits<int32_t>::max());
  assert(head == nullptr ||
         (queries.size() == 1 && head->head().codes().size() == rows.rows.n));
  assert((_mm_getcsr() & 0x8040) == 0);  // DAZ and FTZ
  impl_ =
      std::make_unique<Impl>(queries, rows, tops, shared, plane, head, guesses);
}

CertifiedScanner::~CertifiedScanner() = default;

bool CertifiedScanner::Scan(int64_t begin, int64_t end,
                            absl::FunctionRef<bool()> stop) {
  return impl_->Scan(begin, end, stop);
}

void CertifiedScanner::Leave(int64_t query) { impl_->Leave(query); }

void CertifiedScanner::CountWithin() { impl_->CountWithin(); }

bool CertifiedScanner::Finish(absl::Span<ScanAccount> accounts,
                              absl::FunctionRef<bool()> stop) {
  return impl_->Finish({}, 0, static_cast<int64_t>(accounts.size()), accounts,
                       stop);
}

bool CertifiedScanner::FinishWith(absl::Span<CertifiedScanner* const> others,
                                  int64_t first, int64_t count,
                                  absl::Span<ScanAccount> accounts,
                                  absl::FunctionRef<bool()> stop) {
  return impl_->Finish(others, first, count, accounts, stop);
}

bool CertifiedScan(const CertifiedQueries& queries, const ScanRows& rows,
                   int64_t begin, int64_t end, absl::Span<TopK> tops,
                   absl::Span<ScanAccount> accounts,
                   absl::FunctionRef<bool()> stop,
                   absl::Span<SharedThreshold> shared,
                   const CertifiedPlane* plane,
                   const CertifiedHeadQuery* head) {
  assert(static_cast<int64_t>(accounts.size()) == queries.size());
  CertifiedScanner scanner(queries, rows, tops, shared, plane, head);
  return scanner.Scan(begin, end, stop) && scanner.Finish(accounts, stop);
}

}  // namespace coterie
