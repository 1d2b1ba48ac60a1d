// A tree of cells for more than 16 dimensions: k-means cells of about 256 rows
// that a query meets in order of promise, with a proven bound for each.
//
// The rows of a cell lie next to each other, so that the certified scan's codes
// and kernels (index/certified_scan.h) serve as its leaf. A cell keeps its mean
// c, the radius r >= |x - c| of its rows and their root mean square distance
// rho from it. With V = |q - c|^2:
//   proven    |q - x|^2 >= max(0, sqrt(V) - r)^2          (ball)
//   promised  |q - x|^2 >= V + rho^2 - 2 z rho sqrt(V)
// for all x whose offset from c has a component of at most z rho towards q.
// INNER_PRODUCT: -<q, x> >= -<q, c> - |q| r and - |q| z rho. COSINE works on
// unit rows, and 1 - cos = |q' - x'|^2 / 2.
//
// Cells are read by rising promise. A search for part of the answer reads as
// many rows as held that part of the neighbours of rows that were asked for
// theirs (Train). An exact search rules cells out by the proven bound alone;
// where that leaves much of the data, as it does in high dimensions, it hands
// the threshold that it found over to the certified scan.
//
// Precedents: inverted files (Sivic, Zisserman, ICCV 2003), ball bounds
// (Omohundro, TR-89-063, ICSI 1989).

#ifndef COTERIE_INDEX_TREE_CELLS_H_
#define COTERIE_INDEX_TREE_CELLS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "index/certified_codes.h"
#include "index/certified_memory.h"
#include "index/certified_scan.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/tree_types.h"
#include "index/vectors.h"

namespace coterie {

// Immutable but for Train; then any number of threads may share it. Speaks of
// rows in the order of the tree: see Build.
class CellTree {
 public:
  // Rows of a cell on average.
  static constexpr int64_t kCellRows = 256;
  static constexpr int64_t kMaxCells = 16384;
  // What Train learns: for these k, at shares 1 - 0.5 * 0.8^i.
  static constexpr int64_t kTrainedK[] = {1, 10, 100, 1000};
  static constexpr int64_t kShares = 32;

  // The tree as plain memory: what to write to disk and to read back.
  struct Parts {
    Metric metric = Metric::kSquaredL2;
    int64_t n = 0;
    int64_t d = 0;
    float max_norm = 0;  // >= the norm of every mean
    // Where cells start, and n.
    absl::Span<const int64_t> begins;
    // Means, in blocks of 16, d x 16 floats each.
    absl::Span<const float> means;
    absl::Span<const float> radii;    // r, rounded up
    absl::Span<const float> spreads;  // rho
    float promise = 0;                // z
    // Part of the rows to read for each k and share; empty if not trained.
    absl::Span<const float> budgets;
  };

  // Builds the cells of `rows` and writes to `order` the order in which the
  // tree wants them: row i of the tree is rows.row(order[i]). Lloyd's algorithm
  // on a sample with canonical distances: the same tree whatever the threads
  // and the CPU.
  // REQUIRES: fewer than 2^31 rows that pass ValidateVector, d <= kMaxDimension
  // (index/distance.h), no DAZ or FTZ. O(n cells d) time over 8-bit codes.
  static CellTree Build(Metric metric, RowsView rows, RunTasks run_tasks,
                        std::vector<int64_t>* order);

  // Learns z and how many rows to read from up to 1,024 rows as queries, each
  // without itself. Without it a search for part of the answer is exact. Leaves
  // a tree of fewer than 4,096 rows as it is. REQUIRES: rows in the tree's
  // order, `codes` of them; nobody uses the tree meanwhile.
  void Train(const ScanRows& rows, const CertifiedCodes& codes,
             RunTasks run_tasks);

  // Copies. INVALID_ARGUMENT if sizes or ranges do not fit together: then no
  // search reads beyond the arrays. Values are taken on trust: check a sum.
  static absl::StatusOr<CellTree> FromParts(const Parts& parts);
  Parts parts() const;

  Metric metric() const { return metric_; }
  int64_t size() const { return n_; }
  int64_t dimension() const { return d_; }
  int64_t cells() const { return static_cast<int64_t>(radii_.size()); }
  bool trained() const { return !budgets_.empty(); }
  // Bytes on the heap.
  int64_t MemoryBytes() const;

  // The part of the rows to read so that `share` of the k nearest are among
  // them, as far as training tells; 1 if it does not reach so far.
  double Budget(double k, double share) const;

 private:
  friend class CellSearch;
  class Builder;
  class Trainer;
  template <typename T>
  using Array = std::vector<T, internal_certified::StreamAllocator<T>>;

  CellTree() = default;

  Metric metric_ = Metric::kSquaredL2;
  int64_t n_ = 0;
  int64_t d_ = 0;
  float max_norm_ = 0;
  std::vector<int64_t> begins_;
  Array<float> means_;
  std::vector<float> radii_;
  std::vector<float> spreads_;
  float promise_ = 0;
  std::vector<float> budgets_;
};

// A part of the data: a tree, its rows and their codes in the tree's order.
struct CellSegment {
  const CellTree* tree = nullptr;
  const CertifiedCodes* codes = nullptr;
  ScanRows rows;
  FirstLook first_look;  // of the same rows
};

// Searches all segments for each query, offers what may be near to tops[q] and
// adds to accounts[q]. limits.max_leaves counts cells per query. `stop` as in
// CertifiedScan: asked first and then after every 256 KiB read.
// REQUIRES: as CertifiedScan; metric and dimension agree throughout.
bool CellTreeSearch(const ScanQueries& queries,
                    absl::Span<const CellSegment> segments,
                    const TreeLimits& limits, absl::Span<TopK> tops,
                    absl::Span<TreeAccount> accounts,
                    absl::FunctionRef<bool()> stop);

}  // namespace coterie

#endif  // COTERIE_INDEX_TREE_CELLS_H_
