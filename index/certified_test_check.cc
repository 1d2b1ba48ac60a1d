#include "index/certified_test_check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/certified_bound.h"
#include "index/certified_codes.h"
#include "index/certified_dispatch.h"
#include "index/certified_kernels.h"
#include "index/certified_plane.h"
#include "index/certified_query.h"
#include "index/certified_slack.h"
#include "index/certified_test_data.h"
#include "index/code_simd.h"
#include "index/distance.h"
#include "index/metric.h"

namespace coterie {
namespace {

using internal_certified::BatchKernelFor;
using internal_certified::CodeHit;
using internal_certified::CodeTile;
using internal_certified::FineKernelFor;
using internal_certified::kTileQueries;
using internal_certified::PlaneKernelFor;
using internal_certified::PlaneTile;

constexpr int64_t kGroupRows = CertifiedCodes::kGroupRows;
constexpr int64_t kNeighbors = 5;

// Cuts of the queries of a tile.
struct Cuts {
  float a[kTileQueries];
  float b[kTileQueries];
  float k[kTileQueries];

  void Set(int64_t i, const CertifiedCut& cut) {
    a[i] = cut.a;
    b[i] = cut.b;
    k[i] = cut.k;
  }
};

// Hits of `count` queries from `first` on in one group of rows.
std::vector<CodeHit> RunGroup(const CertifiedQueries& queries, int64_t first,
                              int64_t count, int64_t group, uint64_t live,
                              const Cuts& cuts) {
  const CertifiedCodes& codes = queries.codes();
  const int64_t row = group * kGroupRows;
  const CodeTile tile = {
      .codes = codes.block(row),
      .groups = 1,
      .quads = codes.quads(),
      .a = codes.a(row),
      .b = codes.b(row),
      .live = &live,
      .queries = queries.quads(first),
      .query_stride = queries.quad_stride(),
      .starts = queries.starts(first),
      .cut_a = cuts.a,
      .cut_b = cuts.b,
      .cut_k = cuts.k,
      .ahead = nullptr,
  };
  std::vector<CodeHit> hits(static_cast<size_t>(kGroupRows * kTileQueries));
  const int64_t found =
      queries.depth() == CertifiedQueries::Depth::kFine
          ? FineKernelFor(queries.kernel())(tile, queries.low_bits(),
                                            hits.data())
          : BatchKernelFor(queries.kernel())(tile, count, hits.data());
  hits.resize(static_cast<size_t>(found));
  return hits;
}

// The score of a row, if the plane keeps it at this threshold.
std::optional<int32_t> PlaneKeeps(const CertifiedQueries& queries,
                                  const CertifiedPlane& plane, int64_t query,
                                  int64_t row, double threshold) {
  const CertifiedCut cut =
      CutFor(queries.codes(), queries.query(query),
             plane.panel(row / CertifiedCodes::kPanelRows), threshold);
  const int64_t first = row / kGroupRows * kGroupRows;
  const uint64_t live = uint64_t{1} << (row % kGroupRows);
  const int32_t* starts = queries.starts(query);
  const PlaneTile tile = {
      .lines = plane.block(first),
      .groups = 1,
      .quads = queries.codes().quads(),
      .a = plane.a(first),
      .b = plane.b(first),
      .live = &live,
      .queries = queries.quads(query),
      .query_stride = queries.quad_stride(),
      .starts = {starts[0] / 128 * 15, starts[1] / 128 * 15},
      .cut_a = cut.a,
      .cut_b = cut.b,
      .cut_k = cut.k,
  };
  CodeHit hit;
  if (PlaneKernelFor(queries.kernel())(tile, queries.low_bits(), &hit) == 0) {
    return std::nullopt;
  }
  return hit.ip;
}

}  // namespace

CertifiedCheck::CertifiedCheck(const CertifiedTestData& data, Metric metric)
    : data_(data), metric_(metric), queries_(metric, data.queries_view()) {
  const RowsView rows = data.rows_view();
  for (int64_t q = 0; q < queries_.size(); ++q) {
    for (int64_t i = 0; i < rows.n; ++i) {
      distances_.push_back(
          CanonicalDistance(metric, queries_.query(q), rows.row(i)));
    }
  }
}

double CertifiedCheck::Distance(int64_t query, int64_t row) const {
  return distances_[static_cast<size_t>(query * data_.rows_view().n + row)];
}

void CertifiedCheck::Run(const CertifiedSlack& slack, CodeKernel kernel,
                         CertifiedQueries::Depth depth,
                         CertifiedLosses& losses) const {
  CertifiedCodes::Options options;
  options.clip = data_.clip;
  options.centre = data_.centre;
  // A centre of rows is none of unit rows, but valid: any is.
  options.slack = slack;
  const CertifiedCodes codes(metric_, data_.rows_view(), options);
  const CertifiedQueries queries(queries_, codes, kernel, depth);
  for (int64_t row = 0; row < codes.size(); ++row) {
    CheckOwn(queries, row, losses);
  }
  for (int64_t q = 0; q < queries.size(); ++q) CheckKth(queries, q, losses);
  if (depth == CertifiedQueries::Depth::kFine) CheckPlane(queries, losses);
  losses.pairs += codes.size() * queries.size();
}

void CertifiedCheck::CheckOwn(const CertifiedQueries& queries, int64_t row,
                              CertifiedLosses& losses) const {
  const CertifiedCodes& codes = queries.codes();
  const CertifiedPanel& panel = codes.panel(row / CertifiedCodes::kPanelRows);
  const int64_t tile =
      queries.depth() == CertifiedQueries::Depth::kFine ? 1 : kTileQueries;
  for (int64_t first = 0; first < queries.size(); first += tile) {
    const int64_t count = std::min(tile, queries.size() - first);
    Cuts cuts;
    for (int64_t i = 0; i < count; ++i) {
      cuts.Set(i, CutFor(codes, queries.query(first + i), panel,
                         Distance(first + i, row)));
    }
    std::vector<bool> kept(static_cast<size_t>(count));
    for (const CodeHit& hit :
         RunGroup(queries, first, count, row / kGroupRows,
                  uint64_t{1} << (row % kGroupRows), cuts)) {
      kept[hit.query] = true;
    }
    for (int64_t i = 0; i < count; ++i) {
      if (kept[static_cast<size_t>(i)]) continue;
      Note(queries, "own threshold", first + i, row, losses.own, losses);
    }
  }
}

void CertifiedCheck::CheckPlane(const CertifiedQueries& queries,
                                CertifiedLosses& losses) const {
  const CertifiedPlane plane(queries.codes(), data_.rows_view());
  for (int64_t q = 0; q < queries.size(); ++q) {
    for (int64_t row = 0; row < queries.codes().size(); ++row) {
      const std::optional<int32_t> ip =
          PlaneKeeps(queries, plane, q, row, Distance(q, row));
      if (!ip.has_value()) {
        Note(queries, "plane", q, row, losses.plane, losses);
        continue;
      }
      CheckBounds(queries, plane.panel(row / CertifiedCodes::kPanelRows),
                  {*plane.a(row), *plane.b(row), *ip}, q, row, losses);
    }
  }
}

void CertifiedCheck::CheckKth(const CertifiedQueries& queries, int64_t query,
                              CertifiedLosses& losses) const {
  const CertifiedCodes& codes = queries.codes();
  std::vector<double> sorted;
  for (int64_t i = 0; i < codes.size(); ++i) {
    sorted.push_back(Distance(query, i));
  }
  const size_t k = static_cast<size_t>(std::min(kNeighbors, codes.size()) - 1);
  std::nth_element(sorted.begin(), sorted.begin() + k, sorted.end());
  std::vector<bool> kept(sorted.size());
  for (const double threshold :
       {sorted[k], std::numeric_limits<double>::infinity()}) {
    std::fill(kept.begin(), kept.end(), false);
    for (int64_t row = 0; row < codes.size(); row += kGroupRows) {
      Cuts cuts;
      cuts.Set(
          0, CutFor(codes, queries.query(query),
                    codes.panel(row / CertifiedCodes::kPanelRows), threshold));
      const int64_t rest = std::min(kGroupRows, codes.size() - row);
      const uint64_t live = ~uint64_t{0} >> (kGroupRows - rest);
      for (const CodeHit& hit :
           RunGroup(queries, query, 1, row / kGroupRows, live, cuts)) {
        kept[static_cast<size_t>(row + hit.row)] = true;
        if (threshold == sorted[k]) continue;
        const int64_t i = row + hit.row;
        const CertifiedPanel& panel =
            codes.panel(row / CertifiedCodes::kPanelRows);
        const CertifiedScore score = {*codes.a(i), *codes.b(i), hit.ip};
        CheckBounds(queries, panel, score, query, i, losses);
        if (!(UpperBound(codes, queries.query(query), panel, score) >=
              Distance(query, i))) {
          Note(queries, "upper bound", query, i, losses.upper, losses);
        }
      }
    }
    for (int64_t i = 0; i < codes.size(); ++i) {
      if (kept[static_cast<size_t>(i)] || Distance(query, i) > threshold) {
        continue;
      }
      Note(queries, "k-th threshold", query, i, losses.kth, losses);
    }
  }
}

void CertifiedCheck::CheckBounds(const CertifiedQueries& queries,
                                 const CertifiedPanel& panel,
                                 const CertifiedScore& score, int64_t query,
                                 int64_t row, CertifiedLosses& losses) const {
  const CertifiedCodes& codes = queries.codes();
  const double d = Distance(query, row);
  if (!(LowerBound(codes, queries.query(query), panel, score) <= d)) {
    Note(queries, "lower bound", query, row, losses.lower, losses);
  }
  const CertifiedRange::Bounds range =
      CertifiedRange(codes, queries.query(query)).Of(panel, score);
  if (!(range.lower <= d)) {
    Note(queries, "lower end", query, row, losses.lower, losses);
  }
  if (!(range.upper >= d)) {
    Note(queries, "upper end", query, row, losses.upper, losses);
  }
}

void CertifiedCheck::Note(const CertifiedQueries& queries, const char* what,
                          int64_t query, int64_t row, int64_t& count,
                          CertifiedLosses& losses) const {
  ++count;
  if (!losses.first.empty()) return;
  losses.first = absl::StrCat(
      what, ": kind ", data_.kind, ", ", absl::string_view(MetricName(metric_)),
      ", d ", data_.d, ", ", CodeKernelName(queries.kernel()),
      queries.depth() == CertifiedQueries::Depth::kFine ? " fine" : " coarse",
      ", query ", query, ", row ", row, ", distance ", Distance(query, row));
}

}  // namespace coterie
