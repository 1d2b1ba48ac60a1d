#include "index/exact_scan.h"

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
#include "index/distance.h"
#include "index/exact_scan_bound.h"
#include "index/exact_scan_kernels.h"
#include "index/metric.h"
#include "index/simd.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace coterie {

using internal_scan::CutOff;
using internal_scan::CutOffFor;
using internal_scan::FilterKernel;
using internal_scan::FilterNorms;
using internal_scan::FilterTile;
using internal_scan::kMaxTileRows;
using internal_scan::kQueryPadding;
using internal_scan::kRowPadding;
using internal_scan::kTileQueries;

namespace {

constexpr int64_t kStopBytes = 256 << 10;
// A tile of rows is read again for each tile of queries: it should stay in L2.
constexpr int64_t kTileBytes = 128 << 10;

constexpr int64_t RoundUpTo(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

struct Kernels {
  FilterKernel one;
  FilterKernel stream;
  FilterKernel batch;
};

Kernels KernelsFor(SimdTarget target, Metric metric) {
  using namespace internal_scan;
  const bool l2 = metric == Metric::kSquaredL2;
  switch (target) {
    case SimdTarget::kAvx512:
      return l2 ? Kernels{SquaredL2OneAvx512, SquaredL2StreamAvx512,
                          SquaredL2BatchAvx512}
                : Kernels{DotOneAvx512, DotStreamAvx512, DotBatchAvx512};
    case SimdTarget::kAvx2:
      return l2 ? Kernels{SquaredL2OneAvx2, SquaredL2StreamAvx2,
                          SquaredL2BatchAvx2}
                : Kernels{DotOneAvx2, DotStreamAvx2, DotBatchAvx2};
    case SimdTarget::kScalar:
      break;
  }
  return l2 ? Kernels{SquaredL2OneScalar, SquaredL2StreamScalar,
                      SquaredL2BatchScalar}
            : Kernels{DotOneScalar, DotStreamScalar, DotBatchScalar};
}

// The next live rows, gathered so that kernels meet no dead ones.
struct RowTile {
  int64_t count = 0;
  int64_t index[kMaxTileRows];
  const float* rows[kMaxTileRows + kRowPadding];
  float norms[kMaxTileRows + kRowPadding] = {};
};

// Walks the live rows of [begin, end) in order.
class LiveRows {
 public:
  LiveRows(const ScanRows& rows, Metric metric, int64_t begin, int64_t end)
      : rows_(rows),
        with_norms_(metric != Metric::kSquaredL2),
        next_(begin),
        end_(end) {
    const int64_t row_bytes =
        std::max<int64_t>(1, rows.rows.d * int64_t{sizeof(float)});
    capacity_ = std::clamp(kTileBytes / row_bytes / kRowPadding * kRowPadding,
                           kRowPadding, kMaxTileRows);
  }

  // Fills `tile`; false if no live row is left.
  bool Next(RowTile& tile) {
    tile.count = 0;
    while (next_ < end_ && tile.count < capacity_) {
      if (rows_.live == nullptr) {
        tile.index[tile.count++] = next_++;
        continue;
      }
      const uint64_t rest = rows_.live[next_ / 64] >> (next_ % 64);
      if (rest == 0) {
        next_ = RoundUpTo(next_ + 1, 64);
        continue;
      }
      next_ += absl::countr_zero(rest);
      if (next_ < end_) tile.index[tile.count++] = next_++;
    }
    if (tile.count == 0) return false;
    for (int64_t i = 0; i < tile.count; ++i) {
      tile.rows[i] = rows_.rows.data + tile.index[i] * rows_.rows.stride;
    }
    if (with_norms_) {
      double squared_norms[kMaxTileRows + 1] = {};
      for (int64_t i = 0; i < tile.count; ++i) {
        squared_norms[i] = rows_.squared_norms[tile.index[i]];
      }
      FilterNorms(squared_norms, RoundUpTo(tile.count, 2), tile.norms);
    }
    for (int64_t i = tile.count; i % kRowPadding != 0; ++i) {
      tile.rows[i] = tile.rows[tile.count - 1];
    }
    return true;
  }

 private:
  const ScanRows& rows_;
  const bool with_norms_;
  int64_t capacity_;
  int64_t next_;
  const int64_t end_;
};

// Cut-offs of all queries, following the thresholds of their TopK.
class CutOffs {
 public:
  CutOffs(const ScanQueries& queries, absl::Span<const TopK> tops)
      : queries_(queries), tops_(tops) {
    const size_t padded =
        static_cast<size_t>(RoundUpTo(queries.size(), kTileQueries));
    a_.assign(padded, std::numeric_limits<float>::quiet_NaN());
    b_.assign(padded, 0);
    thresholds_.assign(padded, std::numeric_limits<double>::quiet_NaN());
  }

  void Refresh(int64_t query) {
    const size_t q = static_cast<size_t>(query);
    const double threshold = tops_[q].Threshold();
    if (threshold == thresholds_[q]) return;
    thresholds_[q] = threshold;
    const CutOff cut = CutOffFor(queries_.metric(), queries_.dimension(),
                                 queries_.squared_norm(query), threshold);
    a_[q] = cut.a;
    b_[q] = cut.b;
  }

  const float* a(int64_t query) const { return a_.data() + query; }
  const float* b(int64_t query) const { return b_.data() + query; }

 private:
  const ScanQueries& queries_;
  absl::Span<const TopK> tops_;
  std::vector<float> a_;
  std::vector<float> b_;
  std::vector<double> thresholds_;  // that a_ and b_ were made for
};

// Re-scores the rows of `tile` in `survivors` and offers them to `top`.
void Offer(const ScanQueries& queries, int64_t query, const ScanRows& rows,
           const RowTile& tile, uint64_t survivors, TopK& top,
           ScanAccount& account) {
  const int evaluated = absl::popcount(survivors);
  account.evaluated += evaluated;
  account.ruled_out += tile.count - evaluated;
  const VectorView q = queries.query(query);
  const double q_norm = queries.squared_norm(query);
  for (; survivors != 0; survivors &= survivors - 1) {
    const int64_t i = tile.index[absl::countr_zero(survivors)];
    const double x_norm =
        queries.metric() == Metric::kSquaredL2 ? 0 : rows.squared_norms[i];
    top.Offer(
        {rows.ids[i], CanonicalDistance(queries.metric(), q, rows.rows.row(i),
                                        q_norm, x_norm)});
  }
}

}  // namespace

ScanQueries::ScanQueries(Metric metric, RowsView queries)
    : metric_(metric),
      n_(queries.n),
      d_(queries.d),
      stride_(RoundUpTo(std::max<int64_t>(1, queries.d), kQueryPadding)),
      data_(static_cast<size_t>(
          RoundUpTo(std::max<int64_t>(1, n_), kTileQueries) *
          (stride_ / kQueryPadding))),
      squared_norms_(static_cast<size_t>(n_)) {
  assert(d_ <= kMaxDimension);
  for (int64_t i = 0; i < n_; ++i) {
    std::copy_n(queries.row(i).data(), d_, data_.data()->floats + i * stride_);
    squared_norms_[static_cast<size_t>(i)] = CanonicalSquaredNorm(query(i));
  }
}

bool ExactScan(const ScanQueries& queries, const ScanRows& rows, int64_t begin,
               int64_t end, absl::Span<TopK> tops,
               absl::Span<ScanAccount> accounts,
               absl::FunctionRef<bool()> stop) {
  assert(static_cast<int64_t>(tops.size()) == queries.size());
  assert(static_cast<int64_t>(accounts.size()) == queries.size());
  assert(queries.dimension() == rows.rows.d || begin == end);
  assert(0 <= begin && begin <= end && end <= rows.rows.n);
  assert(queries.metric() == Metric::kSquaredL2 ||
         rows.squared_norms != nullptr || begin == end);
  assert((_mm_getcsr() & 0x8040) == 0);  // DAZ and FTZ

  const Kernels kernels = KernelsFor(ActiveSimdTarget(), queries.metric());
  const RowsView q = queries.view();
  CutOffs cut_offs(queries, tops);
  LiveRows live(rows, queries.metric(), begin, end);
  RowTile row_tile;
  int64_t unasked_bytes = kStopBytes;
  while (live.Next(row_tile)) {
    for (int64_t first = 0; first < queries.size(); first += kTileQueries) {
      if (unasked_bytes >= kStopBytes) {
        if (stop()) return false;
        unasked_bytes = 0;
      }
      unasked_bytes += row_tile.count * q.d * int64_t{sizeof(float)};

      const int64_t count = std::min(kTileQueries, queries.size() - first);
      for (int64_t i = first; i < first + count; ++i) cut_offs.Refresh(i);
      uint64_t survivors[kTileQueries];
      const FilterTile tile = {.rows = row_tile.rows,
                               .row_count = row_tile.count,
                               .row_norms = row_tile.norms,
                               .queries = q.data + first * q.stride,
                               .query_stride = q.stride,
                               .d = q.d,
                               .a = cut_offs.a(first),
                               .b = cut_offs.b(first),
                               .survivors = survivors};
      // The first tile of queries brings the rows into cache.
      (count == 1   ? kernels.one
       : first == 0 ? kernels.stream
                    : kernels.batch)(tile);
      for (int64_t i = 0; i < count; ++i) {
        const size_t at = static_cast<size_t>(first + i);
        Offer(queries, first + i, rows, row_tile, survivors[i], tops[at],
              accounts[at]);
      }
    }
  }
  return true;
}

}  // namespace coterie
