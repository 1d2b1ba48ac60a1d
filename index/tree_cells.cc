#include "index/tree_cells.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "index/certified_codes.h"
#include "index/certified_query.h"
#include "index/certified_scan.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/tree_cell_bound.h"
#include "index/tree_dispatch.h"
#include "index/tree_lanes.h"
#include "index/tree_types.h"
#include "index/tree_unit.h"
#include "index/vectors.h"

namespace coterie {

using internal_tree::CellBound;
using internal_tree::kLanes;

namespace {

constexpr int64_t kTrainingRows = 4096;
constexpr int64_t kMostQueries = 1024;
constexpr int64_t kTrainingBatch = 64;
// A query and a neighbour it may have for so many rows: more would be most of
// the rows.
constexpr int64_t kRowsPerQuery = 16;
constexpr int64_t kKs = std::size(CellTree::kTrainedK);
// The z to choose from, by the rows read for 0.95 of 10 neighbours.
constexpr float kPromises[] = {0, 0.3f, 0.5f, 0.6f, 0.7f};
constexpr int64_t kChoices = std::size(kPromises);
constexpr int64_t kChoiceK = 10;
constexpr double kChoiceShare = 0.95;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

double ShareAt(int64_t i) {
  return 1 - 0.5 * std::pow(0.8, static_cast<double>(i));
}

// Standard errors that are added to what was seen to suffice: rows that the
// cells were made of are found in them a little sooner than others.
constexpr double kErrors = 1.65;

// Of ascending `values`, the one below which `share` of them lie, and kErrors
// standard errors of a sample of `queries` more.
float Quantile(const std::vector<float>& values, int64_t queries,
               double share) {
  const double safe = share + kErrors * std::sqrt(share * (1 - share) /
                                                  static_cast<double>(queries));
  const double at = safe * static_cast<double>(values.size());
  return values[std::min(values.size() - 1, static_cast<size_t>(at))];
}

}  // namespace

// Collects, for each z and each neighbour of each query, the part of the rows
// that a search reads up to the neighbour's cell.
class CellTree::Trainer {
 public:
  Trainer(const CellTree& tree, const ScanRows& rows,
          const CertifiedCodes& codes)
      : tree_(tree),
        rows_(rows),
        codes_(codes),
        queries_(std::min(kMostQueries, tree.n_ / kRowsPerQuery /
                                            kTrainingBatch * kTrainingBatch)),
        numbers_(rows) {
    for (int64_t k : kTrainedK) {
      if (k <= tree.n_ / kRowsPerQuery) most_ = k;
    }
    for (std::vector<float>& parts : parts_) {
      parts.resize(static_cast<size_t>(queries_ * most_), 1);
    }
    ids_.resize(static_cast<size_t>(tree.n_));
    for (size_t i = 0; i < ids_.size(); ++i) ids_[i] = i;
    numbers_.ids = ids_.data();
    numbers_.live = nullptr;
  }

  int64_t batches() const { return queries_ / kTrainingBatch; }

  // Queries [first, first + kTrainingBatch).
  void Run(int64_t first) {
    std::vector<int64_t> rows;
    std::vector<float> data;
    for (int64_t i = first; i < first + kTrainingBatch; ++i) {
      rows.push_back(i * tree_.n_ / queries_);
      const VectorView row = rows_.rows.row(rows.back());
      data.insert(data.end(), row.begin(), row.end());
    }
    const ScanQueries prepared(
        tree_.metric_, {data.data(), kTrainingBatch, tree_.d_, tree_.d_});
    const CertifiedQueries coded(prepared, codes_);
    std::vector<TopK> tops(rows.size(), TopK(most_ + 1));
    std::vector<ScanAccount> accounts(rows.size());
    CertifiedScan(coded, numbers_, 0, tree_.n_, absl::MakeSpan(tops),
                  absl::MakeSpan(accounts), [] { return false; });
    for (int64_t i = 0; i < kTrainingBatch; ++i) {
      std::vector<Neighbor> found = tops[static_cast<size_t>(i)].TakeSorted();
      const PointId self = static_cast<PointId>(rows[static_cast<size_t>(i)]);
      found.erase(
          std::remove_if(found.begin(), found.end(),
                         [self](const Neighbor& n) { return n.id == self; }),
          found.end());
      found.resize(static_cast<size_t>(most_));
      Note(prepared, i, first + i, found);
    }
  }

  // Chooses z, and tells what to read for each k and share.
  void Choose(float* promise, std::vector<float>* budgets) const {
    float least = 2;
    int64_t best = 0;
    for (int64_t z = 0; z < kChoices; ++z) {
      const float part = Quantile(Sorted(z, kChoiceK), queries_, kChoiceShare);
      if (part < least) {
        least = part;
        best = z;
      }
    }
    *promise = kPromises[best];
    budgets->clear();
    for (int64_t k : kTrainedK) {
      if (k > most_) {
        budgets->resize(budgets->size() + kShares, 1);
        continue;
      }
      const std::vector<float> parts = Sorted(best, k);
      for (int64_t i = 0; i < kShares; ++i) {
        budgets->push_back(Quantile(parts, queries_, ShareAt(i)));
      }
    }
  }

 private:
  // The parts of the first k neighbours, ascending.
  std::vector<float> Sorted(int64_t z, int64_t k) const {
    std::vector<float> parts;
    for (int64_t q = 0; q < queries_; ++q) {
      const auto first = parts_[z].begin() + q * most_;
      parts.insert(parts.end(), first, first + k);
    }
    std::sort(parts.begin(), parts.end());
    return parts;
  }

  std::vector<float> ValuesOf(VectorView q) const {
    std::vector<float> working(q.begin(), q.end());
    if (tree_.metric_ == Metric::kCosine) {
      internal_tree::ToUnit(q, working.data());
    }
    const auto& kernels = internal_tree::ActiveLaneKernels();
    const auto values_of = tree_.metric_ == Metric::kInnerProduct
                               ? kernels.values_dot
                               : kernels.values_l2;
    const int64_t blocks = CeilDiv(tree_.cells(), kLanes);
    std::vector<float> values(static_cast<size_t>(blocks * kLanes));
    for (int64_t b = 0; b < blocks; ++b) {
      values_of(tree_.means_.data() + b * kLanes * tree_.d_, 1, tree_.d_,
                working.data(), values.data() + b * kLanes);
    }
    return values;
  }

  void Note(const ScanQueries& queries, int64_t query, int64_t number,
            const std::vector<Neighbor>& found) {
    const std::vector<float> values = ValuesOf(queries.query(query));
    const CellBound bound(tree_.metric_, tree_.d_, queries.squared_norm(query),
                          tree_.max_norm_);
    const size_t cells = static_cast<size_t>(tree_.cells());
    std::vector<std::pair<double, size_t>> order(cells);
    std::vector<float> part(cells);
    for (int64_t z = 0; z < kChoices; ++z) {
      for (size_t c = 0; c < cells; ++c) {
        order[c] = {bound.Promised(values[c], tree_.spreads_[c], kPromises[z]),
                    c};
      }
      std::sort(order.begin(), order.end());
      int64_t rows = 0;
      for (const auto& [promised, c] : order) {
        rows += tree_.begins_[c + 1] - tree_.begins_[c];
        part[c] = static_cast<float>(static_cast<double>(rows) /
                                     static_cast<double>(tree_.n_));
      }
      for (size_t i = 0; i < found.size(); ++i) {
        const auto next =
            std::upper_bound(tree_.begins_.begin(), tree_.begins_.end(),
                             static_cast<int64_t>(found[i].id));
        parts_[z][static_cast<size_t>(number * most_) + i] =
            part[static_cast<size_t>(next - tree_.begins_.begin() - 1)];
      }
    }
  }

  const CellTree& tree_;
  const ScanRows& rows_;
  const CertifiedCodes& codes_;
  const int64_t queries_;
  int64_t most_ = 1;  // neighbours of each
  ScanRows numbers_;  // rows with their numbers as ids
  std::vector<PointId> ids_;
  std::vector<float> parts_[kChoices];
};

void CellTree::Train(const ScanRows& rows, const CertifiedCodes& codes,
                     RunTasks run_tasks) {
  if (n_ < kTrainingRows) return;
  Trainer trainer(*this, rows, codes);
  run_tasks(trainer.batches(),
            [&](int64_t task) { trainer.Run(task * kTrainingBatch); });
  trainer.Choose(&promise_, &budgets_);
}

double CellTree::Budget(double k, double share) const {
  if (!trained() || !(share <= ShareAt(kShares - 1))) return 1;
  int64_t i = 0;
  while (i + 2 < kShares && ShareAt(i + 1) < share) ++i;
  const double step = std::clamp(
      (share - ShareAt(i)) / (ShareAt(i + 1) - ShareAt(i)), 0.0, 1.0);
  const auto budget = [&](int64_t t) {
    const float* at = budgets_.data() + t * kShares + i;
    return at[0] + step * (at[1] - at[0]);
  };
  for (int64_t t = 0; t < kKs; ++t) {
    if (static_cast<double>(kTrainedK[t]) < k) continue;
    const bool between = t > 0 && k < static_cast<double>(kTrainedK[t]);
    return between ? std::max(budget(t - 1), budget(t)) : budget(t);
  }
  return 1;
}

CellTree::Parts CellTree::parts() const {
  return {.metric = metric_,
          .n = n_,
          .d = d_,
          .max_norm = max_norm_,
          .begins = begins_,
          .means = means_,
          .radii = radii_,
          .spreads = spreads_,
          .promise = promise_,
          .budgets = budgets_};
}

absl::StatusOr<CellTree> CellTree::FromParts(const Parts& parts) {
  const auto refuse = [](auto... what) {
    return absl::InvalidArgumentError(absl::StrCat("cell tree: ", what...));
  };
  if (parts.d < 0 || parts.d > kMaxDimension) {
    return refuse("dimension ", parts.d, " is not in [0, ", kMaxDimension, "]");
  }
  if (parts.n < 0 || parts.n >= std::numeric_limits<int32_t>::max()) {
    return refuse(parts.n, " rows are not in [0, 2^31)");
  }
  const size_t cells = parts.radii.size();
  const size_t blocks =
      static_cast<size_t>(CeilDiv(static_cast<int64_t>(cells), kLanes));
  if (parts.begins.size() != cells + 1 || parts.spreads.size() != cells ||
      parts.means.size() != blocks * static_cast<size_t>(kLanes * parts.d) ||
      (!parts.budgets.empty() &&
       parts.budgets.size() != size_t{kKs * kShares})) {
    return refuse("arrays for ", cells, " cells do not fit together");
  }
  if (parts.begins.front() != 0 || parts.begins.back() != parts.n ||
      !std::is_sorted(parts.begins.begin(), parts.begins.end())) {
    return refuse("cells do not cover rows 0 to ", parts.n, " in order");
  }
  CellTree tree;
  tree.metric_ = parts.metric;
  tree.n_ = parts.n;
  tree.d_ = parts.d;
  tree.max_norm_ = parts.max_norm;
  tree.begins_.assign(parts.begins.begin(), parts.begins.end());
  tree.means_.assign(parts.means.begin(), parts.means.end());
  tree.radii_.assign(parts.radii.begin(), parts.radii.end());
  tree.spreads_.assign(parts.spreads.begin(), parts.spreads.end());
  tree.promise_ = parts.promise;
  tree.budgets_.assign(parts.budgets.begin(), parts.budgets.end());
  return tree;
}

int64_t CellTree::MemoryBytes() const {
  return static_cast<int64_t>(
      means_.capacity() * sizeof(float) + begins_.capacity() * sizeof(int64_t) +
      (radii_.capacity() + spreads_.capacity() + budgets_.capacity()) *
          sizeof(float));
}

}  // namespace coterie
