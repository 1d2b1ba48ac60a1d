// The kinds of index behind C functions, for bench/approx/approx.py. The
// calling thread searches queries one after the other, as a server would that
// has no others to search with them. Boxes get all queries in one call: they go
// one by one anyway, as do their peers behind such a call.
//
// An object belongs to one caller at a time.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "index/certified_codes.h"
#include "index/certified_query.h"
#include "index/certified_scan.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/lsh.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/tree.h"
#include "index/tree_types.h"
#include "index/vectors.h"

namespace coterie {
namespace {

void OneByOne(int64_t count, absl::FunctionRef<void(int64_t)> task) {
  for (int64_t i = 0; i < count; ++i) task(i);
}

bool Never() { return false; }

enum Kind { kExactScan = 0, kCertifiedScan = 1, kTree = 2, kLsh = 3 };

// What a search did, summed over its queries.
struct Counts {
  double read = 0;  // leaves or distinct candidates
  double evaluated = 0;
  double exact = 0;  // answers with the certificate
};

// One segment with a tree, and with LSH tables if asked for.
class Data {
 public:
  Data(Metric metric, RowsView raw, int64_t tables)
      : metric_(metric),
        d_(raw.d),
        tree_(Tree::Build(metric, raw, OneByOne, &order_)),
        codes_(metric, LayOut(raw)) {
    tree_.Train(rows(), &codes_, OneByOne);
    if (tables > 0) {
      LshIndex::Options options;
      options.tables = tables;
      lsh_.push_back(LshIndex::Build(metric, view(), options, OneByOne));
    }
  }

  bool InOneCall(Kind kind) const {
    return kind == kTree && tree_.boxes() != nullptr;
  }

  Counts Search(Kind kind, double target, RowsView raw_queries,
                absl::Span<TopK> tops) const {
    const ScanQueries queries(metric_, raw_queries);
    Counts sum;
    if (kind == kTree) {
      const TreeSegment segment = {&tree_, rows(), &codes_};
      TreeLimits limits;
      limits.target_recall = target;
      std::vector<TreeAccount> accounts(tops.size());
      TreeSearch(queries, absl::MakeSpan(&segment, 1), limits, tops,
                 absl::MakeSpan(accounts), Never);
      for (const TreeAccount& a : accounts) Add(a, a.leaves, sum);
    } else if (kind == kLsh) {
      const LshSegment segment = {&lsh_[0], &codes_, rows()};
      LshLimits limits;
      limits.target_recall = target;
      std::vector<LshAccount> accounts(tops.size());
      LshSearch(queries, absl::MakeSpan(&segment, 1), limits, tops,
                absl::MakeSpan(accounts), Never);
      for (const LshAccount& a : accounts) Add(a, a.candidates, sum);
    } else {
      std::vector<ScanAccount> accounts(tops.size());
      if (kind == kExactScan) {
        ExactScan(queries, rows(), 0, view().n, tops, absl::MakeSpan(accounts),
                  Never);
      } else {
        CertifiedScan(CertifiedQueries(queries, codes_), rows(), 0, view().n,
                      tops, absl::MakeSpan(accounts), Never);
      }
      for (const ScanAccount& a : accounts) {
        sum.evaluated += static_cast<double>(a.evaluated);
        sum.exact += 1;
      }
    }
    return sum;
  }

  int64_t d() const { return d_; }
  double TreeBytes() const { return static_cast<double>(tree_.MemoryBytes()); }
  double LshBytes() const {
    return lsh_.empty() ? 0 : static_cast<double>(lsh_[0].MemoryBytes());
  }

 private:
  template <typename Account>
  static void Add(const Account& account, int64_t read, Counts& sum) {
    sum.read += static_cast<double>(read);
    sum.evaluated += static_cast<double>(account.evaluated);
    sum.exact += account.exact() ? 1 : 0;
  }

  RowsView LayOut(RowsView raw) {
    data_.reserve(static_cast<size_t>(raw.n * raw.d));
    for (int64_t i : order_) {
      data_.insert(data_.end(), raw.row(i).begin(), raw.row(i).end());
      ids_.push_back(static_cast<PointId>(i));
      norms_.push_back(CanonicalSquaredNorm(raw.row(i)));
    }
    return view();
  }
  RowsView view() const {
    return {data_.data(), static_cast<int64_t>(ids_.size()), d_, d_};
  }
  ScanRows rows() const {
    return {view(), ids_.data(), norms_.data(), nullptr};
  }

  const Metric metric_;
  const int64_t d_;
  std::vector<int64_t> order_;
  std::vector<float> data_;
  std::vector<PointId> ids_;
  std::vector<double> norms_;
  Tree tree_;
  CertifiedCodes codes_;
  std::vector<LshIndex> lsh_;
};

}  // namespace
}  // namespace coterie

extern "C" {

// metric: 0 L2, 1 inner product, 2 cosine. tables: of LSH; 0 for none.
void* coterie_approx_open(int32_t metric, int64_t n, int64_t d,
                          const float* rows, int64_t tables) {
  return new coterie::Data(static_cast<coterie::Metric>(metric + 1),
                           {rows, n, d, d}, tables);
}

void coterie_approx_close(void* data) {
  delete static_cast<coterie::Data*>(data);
}

// kind: 0 exact scan, 1 certified scan, 2 tree, 3 LSH. ids and distances: m x
// k, filled with ~0 and 0 where there are fewer. counts: leaves or candidates,
// rows evaluated, exact answers, bytes of tree and of LSH.
void coterie_approx_search(const void* data, int32_t kind, double target,
                           int64_t m, const float* queries, int64_t k,
                           uint64_t* ids, double* distances, double* counts) {
  const auto& index = *static_cast<const coterie::Data*>(data);
  coterie::Counts sum;
  const int64_t step =
      index.InOneCall(static_cast<coterie::Kind>(kind)) ? m : 1;
  for (int64_t q = 0; q < m; q += step) {
    std::vector<coterie::TopK> tops(static_cast<size_t>(step),
                                    coterie::TopK(k));
    const coterie::Counts some =
        index.Search(static_cast<coterie::Kind>(kind), target,
                     {queries + q * index.d(), step, index.d(), index.d()},
                     absl::MakeSpan(tops));
    sum.read += some.read;
    sum.evaluated += some.evaluated;
    sum.exact += some.exact;
    for (int64_t j = 0; j < step; ++j) {
      const std::vector<coterie::Neighbor> found =
          tops[static_cast<size_t>(j)].TakeSorted();
      for (int64_t i = 0; i < k; ++i) {
        const size_t at = static_cast<size_t>(i);
        ids[(q + j) * k + i] = at < found.size() ? found[at].id : ~uint64_t{0};
        distances[(q + j) * k + i] = at < found.size() ? found[at].distance : 0;
      }
    }
  }
  counts[0] = sum.read;
  counts[1] = sum.evaluated;
  counts[2] = sum.exact;
  counts[3] = index.TreeBytes();
  counts[4] = index.LshBytes();
}

}  // extern "C"
