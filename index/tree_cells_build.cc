#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "index/certified_codes.h"
#include "index/certified_query.h"
#include "index/certified_rounding.h"
#include "index/certified_scan.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/tree_cells.h"
#include "index/tree_lanes.h"
#include "index/tree_unit.h"
#include "index/vectors.h"

namespace coterie {

using internal_tree::kLanes;

namespace {

constexpr int64_t kIterations = 8;
constexpr int64_t kSampleRows = 64;  // per cell
// Larger cells are split, so often at most: equal rows cannot be.
constexpr int64_t kMostCellRows = 2 * CellTree::kCellRows;
constexpr int64_t kMostSplits = 3;
constexpr int64_t kTaskRows = 2048;
constexpr int64_t kBatch = 256;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Lloyd's algorithm on points in memory, by canonical distances.
class Lloyd {
 public:
  Lloyd(RowsView points, int64_t k, RunTasks run_tasks)
      : points_(points), run_tasks_(run_tasks) {
    // Of points at even distances from each other in the order they came in.
    const int64_t m = std::min(points.n, k * kSampleRows);
    std::vector<float> sample;
    for (int64_t i = 0; i < m; ++i)
      Append(points.row(i * points.n / m), sample);
    for (int64_t c = 0; c < k; ++c) {
      Append(points.row(c * points.n / k), centroids_);
    }
    for (int64_t i = 0; i < kIterations; ++i) {
      MoveToMeans(View(sample), Assign(View(sample)));
    }
  }

  // The number of the centroid of each point.
  std::vector<int32_t> Labels() const { return Assign(points_); }

 private:
  static void Append(VectorView row, std::vector<float>& data) {
    data.insert(data.end(), row.begin(), row.end());
  }

  RowsView View(const std::vector<float>& data) const {
    return {data.data(), static_cast<int64_t>(data.size()) / points_.d,
            points_.d, points_.d};
  }

  // The certified scan with the centroids as rows.
  std::vector<int32_t> Assign(RowsView points) const {
    std::vector<int32_t> labels(static_cast<size_t>(points.n));
    const RowsView centroids = View(centroids_);
    const CertifiedCodes codes(Metric::kSquaredL2, centroids);
    std::vector<PointId> ids(static_cast<size_t>(centroids.n));
    for (size_t c = 0; c < ids.size(); ++c) ids[c] = c;
    const ScanRows rows = {centroids, ids.data(), nullptr, nullptr};
    run_tasks_(CeilDiv(points.n, kBatch), [&](int64_t task) {
      const int64_t first = task * kBatch;
      const int64_t m = std::min(kBatch, points.n - first);
      const ScanQueries queries(
          Metric::kSquaredL2,
          {points.data + first * points.stride, m, points.d, points.stride});
      const CertifiedQueries coded(queries, codes);
      std::vector<TopK> tops(static_cast<size_t>(m), TopK(1));
      std::vector<ScanAccount> accounts(tops.size());
      CertifiedScan(coded, rows, 0, centroids.n, absl::MakeSpan(tops),
                    absl::MakeSpan(accounts), [] { return false; });
      for (int64_t q = 0; q < m; ++q) {
        labels[static_cast<size_t>(first + q)] = static_cast<int32_t>(
            tops[static_cast<size_t>(q)].TakeSorted().front().id);
      }
    });
    return labels;
  }

  // Centroids without points stay where they are.
  void MoveToMeans(RowsView points, const std::vector<int32_t>& labels) {
    const size_t d = static_cast<size_t>(points.d);
    std::vector<double> sums(centroids_.size(), 0);
    std::vector<int64_t> counts(centroids_.size() / d);
    for (int64_t i = 0; i < points.n; ++i) {
      const size_t c = static_cast<size_t>(labels[static_cast<size_t>(i)]);
      ++counts[c];
      for (size_t j = 0; j < d; ++j) sums[c * d + j] += points.row(i)[j];
    }
    for (size_t j = 0; j < sums.size(); ++j) {
      if (counts[j / d] == 0) continue;
      centroids_[j] =
          static_cast<float>(sums[j] / static_cast<double>(counts[j / d]));
    }
  }

  const RowsView points_;
  const RunTasks run_tasks_;
  std::vector<float> centroids_;
};

}  // namespace

class CellTree::Builder {
 public:
  // `rows` are the working rows: of unit length under COSINE.
  Builder(RowsView rows, RunTasks run_tasks, CellTree& tree)
      : rows_(rows), run_tasks_(run_tasks), tree_(tree) {}

  void Run(std::vector<int64_t>* order) {
    Members all(static_cast<size_t>(rows_.n));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    const std::vector<Members> coarse = Split(rows_, all, run_tasks_);
    // Dense regions make large cells: split these again, each on its own.
    std::vector<std::vector<Members>> fine(coarse.size());
    run_tasks_(static_cast<int64_t>(coarse.size()), [&](int64_t c) {
      const size_t at = static_cast<size_t>(c);
      Refine(coarse[at], kMostSplits, fine[at]);
    });
    for (const std::vector<Members>& cells : fine) {
      for (const Members& cell : cells) {
        tree_.begins_.push_back(static_cast<int64_t>(order->size()));
        order->insert(order->end(), cell.begin(), cell.end());
      }
    }
    tree_.begins_.push_back(rows_.n);
    FillCells(*order);
  }

 private:
  using Members = std::vector<int64_t>;  // numbers of rows, ascending

  // The non-empty cells of `members`, whose rows are `points`.
  static std::vector<Members> Split(RowsView points, const Members& members,
                                    RunTasks run_tasks) {
    const int64_t k = std::min(points.n / kCellRows, kMaxCells);
    if (k <= 1) return {members};
    const std::vector<int32_t> labels = Lloyd(points, k, run_tasks).Labels();
    std::vector<Members> cells(static_cast<size_t>(k));
    for (size_t i = 0; i < labels.size(); ++i) {
      cells[static_cast<size_t>(labels[i])].push_back(members[i]);
    }
    cells.erase(std::remove_if(cells.begin(), cells.end(),
                               [](const Members& c) { return c.empty(); }),
                cells.end());
    return cells;
  }

  void Refine(const Members& members, int64_t splits,
              std::vector<Members>& cells) const {
    if (splits == 0 || static_cast<int64_t>(members.size()) <= kMostCellRows) {
      cells.push_back(members);
      return;
    }
    std::vector<float> data;
    data.reserve(members.size() * static_cast<size_t>(rows_.d));
    for (int64_t i : members) {
      data.insert(data.end(), rows_.row(i).begin(), rows_.row(i).end());
    }
    const auto one_by_one = [](int64_t count,
                               absl::FunctionRef<void(int64_t)> task) {
      for (int64_t i = 0; i < count; ++i) task(i);
    };
    const RowsView points = {data.data(), static_cast<int64_t>(members.size()),
                             rows_.d, rows_.d};
    for (const Members& part : Split(points, members, one_by_one)) {
      Refine(part, splits - 1, cells);
    }
  }

  void FillCells(const std::vector<int64_t>& order) {
    const int64_t cells = static_cast<int64_t>(tree_.begins_.size()) - 1;
    tree_.radii_.resize(static_cast<size_t>(cells));
    tree_.spreads_.resize(static_cast<size_t>(cells));
    tree_.means_.assign(
        static_cast<size_t>(CeilDiv(cells, kLanes) * kLanes * rows_.d), 0);
    std::vector<double> norms(static_cast<size_t>(cells));
    run_tasks_(CeilDiv(cells, 16), [&](int64_t task) {
      const int64_t end = std::min(cells, (task + 1) * 16);
      for (int64_t c = task * 16; c < end; ++c) {
        norms[static_cast<size_t>(c)] = FillCell(c, order);
      }
    });
    double norm = 0;
    for (double n : norms) norm = std::max(norm, n);
    tree_.max_norm_ = RoundUp(norm);
  }

  static float RoundUp(double v) {
    return -RoundDown(-std::min(v * (1 + 0x1p-36), 0x1p127));
  }

  // Returns the norm of the mean.
  double FillCell(int64_t cell, const std::vector<int64_t>& order) {
    const size_t at = static_cast<size_t>(cell);
    const int64_t begin = tree_.begins_[at];
    const int64_t end = tree_.begins_[at + 1];
    const auto row = [&](int64_t i) {
      return rows_.row(order[static_cast<size_t>(i)]);
    };
    std::vector<double> sum(static_cast<size_t>(rows_.d), 0);
    for (int64_t i = begin; i < end; ++i) {
      for (size_t j = 0; j < sum.size(); ++j) sum[j] += row(i)[j];
    }
    std::vector<float> mean(sum.size());
    float* block = tree_.means_.data() + cell / kLanes * kLanes * rows_.d;
    for (size_t j = 0; j < sum.size(); ++j) {
      mean[j] = static_cast<float>(sum[j] / static_cast<double>(end - begin));
      block[static_cast<int64_t>(j) * kLanes + cell % kLanes] = mean[j];
    }
    double total = 0;
    double farthest = 0;
    for (int64_t i = begin; i < end; ++i) {
      const double square = CanonicalDistance(Metric::kSquaredL2, mean, row(i));
      total += square;
      farthest = std::max(farthest, square);
    }
    // Unit rows are 2^-23 from where they truly are.
    const double rounding = tree_.metric_ == Metric::kCosine ? 0x1p-23 : 0;
    tree_.radii_[at] = RoundUp(std::sqrt(farthest) + rounding);
    tree_.spreads_[at] =
        RoundUp(std::sqrt(total / static_cast<double>(end - begin)));
    return std::sqrt(CanonicalSquaredNorm(mean));
  }

  const RowsView rows_;
  const RunTasks run_tasks_;
  CellTree& tree_;
};

CellTree CellTree::Build(Metric metric, RowsView rows, RunTasks run_tasks,
                         std::vector<int64_t>* order) {
  assert(rows.d <= kMaxDimension);
  assert(rows.n < std::numeric_limits<int32_t>::max());
  CellTree tree;
  tree.metric_ = metric;
  tree.n_ = rows.n;
  tree.d_ = rows.d;
  order->clear();
  if (rows.n == 0) {
    tree.begins_.push_back(0);
    return tree;
  }
  std::vector<float> unit;
  if (metric == Metric::kCosine) {
    unit.resize(static_cast<size_t>(rows.n * rows.d));
    run_tasks(CeilDiv(rows.n, kTaskRows), [&](int64_t task) {
      const int64_t end = std::min(rows.n, (task + 1) * kTaskRows);
      for (int64_t i = task * kTaskRows; i < end; ++i) {
        internal_tree::ToUnit(rows.row(i), unit.data() + i * rows.d);
      }
    });
    rows = {unit.data(), rows.n, rows.d, rows.d};
  }
  Builder(rows, run_tasks, tree).Run(order);
  return tree;
}

}  // namespace coterie
