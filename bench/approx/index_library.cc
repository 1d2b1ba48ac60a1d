// The kinds of index behind C functions, for bench/approx/approx.py. The
// calling thread searches, as many queries at once as it is told: one is a
// server's that has no others to search with it.
//
// An object belongs to one caller at a time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "index/certified_codes.h"
#include "index/certified_head.h"
#include "index/certified_plane.h"
#include "index/certified_query.h"
#include "index/certified_scan.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/faiss_factory.h"
#include "index/faiss_index.h"
#include "index/faiss_search.h"
#include "index/lsh.h"
#include "index/metric.h"
#include "index/planner.h"
#include "index/top_k.h"
#include "index/tree.h"
#include "index/tree_types.h"
#include "index/vectors.h"
#include "shard/machine_rates.h"
#include "shard/plan_scales.h"

namespace coterie {
namespace {

void OneByOne(int64_t count, absl::FunctionRef<void(int64_t)> task) {
  for (int64_t i = 0; i < count; ++i) task(i);
}

bool Never() { return false; }

// From kFaiss on: the indexes of FAISS, in the order in which they were added.
enum Kind {
  kExactScan = 0,
  kCertifiedScan = 1,
  kTree = 2,
  kLsh = 3,
  kFaiss = 4
};

struct Wanted {
  double target = 1;
  int64_t effort = 0;  // of FAISS; 0: what the target takes
};

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
    MakeFirstLook();
    tree_.Train(rows(), &codes_, OneByOne);
    if (tables > 0) {
      LshIndex::Options options;
      options.tables = tables;
      lsh_.push_back(LshIndex::Build(metric, view(), options, OneByOne));
      lsh_[0].Train(rows(), codes_, OneByOne);
    }
  }

  // False if FAISS refuses.
  bool AddFaiss(const char* text) {
    const auto factory = FaissFactory::Parse(text);
    if (!factory.ok()) return false;
    auto index = FaissIndex::Build(metric_, rows(), *factory, Never);
    if (!index.ok()) return false;
    faiss_.push_back(*std::move(index));
    return true;
  }

  Counts Search(Kind kind, const Wanted& wanted, RowsView raw_queries,
                absl::Span<TopK> tops) const {
    const ScanQueries queries(metric_, raw_queries);
    Counts sum;
    if (kind == kTree) {
      const TreeSegment segment = {&tree_, rows(), &codes_, first_look()};
      TreeLimits limits;
      limits.target_recall = wanted.target;
      std::vector<TreeAccount> accounts(tops.size());
      TreeSearch(queries, absl::MakeSpan(&segment, 1), limits, tops,
                 absl::MakeSpan(accounts), Never);
      for (const TreeAccount& a : accounts) Add(a, a.leaves, sum);
    } else if (kind == kLsh) {
      const LshSegment segment = {&lsh_[0], &codes_, rows(), first_look()};
      LshLimits limits;
      limits.target_recall = wanted.target;
      std::vector<LshAccount> accounts(tops.size());
      LshSearch(queries, absl::MakeSpan(&segment, 1), limits, tops,
                absl::MakeSpan(accounts), Never);
      for (const LshAccount& a : accounts) Add(a, a.candidates, sum);
    } else if (kind >= kFaiss) {
      const FaissSegment segment = {&faiss_[static_cast<size_t>(kind - kFaiss)],
                                    &codes_, rows(), first_look()};
      FaissLimits limits;
      limits.target_recall = wanted.target;
      limits.effort = wanted.effort;
      std::vector<FaissAccount> accounts(tops.size());
      FaissSearch(queries, absl::MakeSpan(&segment, 1), limits, tops,
                  absl::MakeSpan(accounts), Never)
          .IgnoreError();
      for (const FaissAccount& a : accounts) Add(a, a.scanned ? 1 : 0, sum);
    } else {
      Scan(kind, queries, tops, sum);
    }
    return sum;
  }

  // Rows with deleted[id] != 0 live no more; structures stay as they are.
  void Delete(const uint8_t* deleted) {
    live_.assign((ids_.size() + 63) / 64, 0);
    for (size_t i = 0; i < ids_.size(); ++i) {
      if (deleted[ids_[i]] == 0) live_[i / 64] |= uint64_t{1} << (i % 64);
    }
  }

  // What the planner expects of a query that is alone.
  double Predict(Kind kind, double target, int64_t k) const {
    TimedSegment timed;
    timed.metric = metric_;
    timed.rows = rows();
    timed.codes = &codes_;
    timed.first_look = first_look();
    PlanSegment planned;
    planned.rows = view().n;
    planned.coded = true;
    if (kind == kTree) timed.tree = planned.tree = &tree_;
    if (kind == kLsh) timed.lsh = planned.lsh = &lsh_[0];
    if (kind >= kFaiss) {
      timed.faiss = planned.faiss = &faiss_[static_cast<size_t>(kind - kFaiss)];
    }
    planned.scales = MeasureScales(timed, MachineRates());
    PlanQuestion question;
    question.dimension = d_;
    question.k = k;
    question.target_recall = target;
    const Plan plan = ChoosePlan(question, {&planned, 1}, MachineRates());
    if (kind == kTree) return plan.tree_seconds;
    if (kind == kLsh) return plan.lsh_seconds;
    return kind >= kFaiss ? plan.faiss_seconds : plan.scan_seconds;
  }

  int64_t d() const { return d_; }
  double TreeBytes() const { return static_cast<double>(tree_.MemoryBytes()); }
  double FaissBytes() const {
    double bytes = 0;
    for (const FaissIndex& index : faiss_) {
      bytes += static_cast<double>(index.MemoryBytes());
    }
    return bytes;
  }
  double LshBytes() const {
    return lsh_.empty() ? 0 : static_cast<double>(lsh_[0].MemoryBytes());
  }

 private:
  // What a sealed segment has for lone queries, by its rule.
  void MakeFirstLook() {
    if (d_ < 32) return;
    head_ = CertifiedHead::MakeIfPays(metric_, view(),
                                      static_cast<double>(d_) / 2 + 8, 0.8);
    if (head_ == nullptr) {
      plane_ = std::make_unique<CertifiedPlane>(codes_, view());
    }
  }

  void Scan(Kind kind, const ScanQueries& queries, absl::Span<TopK> tops,
            Counts& sum) const {
    std::vector<ScanAccount> accounts(tops.size());
    if (kind == kExactScan) {
      ExactScan(queries, rows(), 0, view().n, tops, absl::MakeSpan(accounts),
                Never);
    } else {
      std::unique_ptr<CertifiedHeadQuery> head;
      if (head_ != nullptr && tops.size() == 1) {
        head = std::make_unique<CertifiedHeadQuery>(queries, 0, *head_);
      }
      CertifiedScan(CertifiedQueries(queries, codes_), rows(), 0, view().n,
                    tops, absl::MakeSpan(accounts), Never, {}, plane_.get(),
                    head.get());
    }
    for (const ScanAccount& a : accounts) {
      sum.evaluated += static_cast<double>(a.evaluated);
      sum.exact += 1;
    }
  }

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
  FirstLook first_look() const { return {plane_.get(), head_.get()}; }
  RowsView view() const {
    return {data_.data(), static_cast<int64_t>(ids_.size()), d_, d_};
  }
  ScanRows rows() const {
    return {view(), ids_.data(), norms_.data(),
            live_.empty() ? nullptr : live_.data()};
  }

  const Metric metric_;
  const int64_t d_;
  std::vector<int64_t> order_;
  std::vector<float> data_;
  std::vector<PointId> ids_;
  std::vector<double> norms_;
  std::vector<uint64_t> live_;  // empty: all
  Tree tree_;
  CertifiedCodes codes_;
  std::unique_ptr<const CertifiedHead> head_;
  std::unique_ptr<const CertifiedPlane> plane_;
  std::vector<LshIndex> lsh_;
  std::vector<FaissIndex> faiss_;
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

// Adds an index of FAISS; 0 if it refuses.
int32_t coterie_approx_add_faiss(void* data, const char* factory) {
  return static_cast<coterie::Data*>(data)->AddFaiss(factory) ? 1 : 0;
}

// deleted: a byte for each row.
void coterie_approx_delete(void* data, const uint8_t* deleted) {
  static_cast<coterie::Data*>(data)->Delete(deleted);
}

// Seconds that the planner expects a lone query of this kind to take.
double coterie_approx_predict(const void* data, int32_t kind, double target,
                              int64_t k) {
  return static_cast<const coterie::Data*>(data)->Predict(
      static_cast<coterie::Kind>(kind), target, k);
}

// kind: 0 exact scan, 1 certified scan, 2 tree, 3 LSH, 4 and more FAISS.
// effort: of FAISS, 0 for what the target takes. batch: queries of a search.
// ids and distances: m x k, filled with ~0 and 0 where there are fewer. counts:
// leaves, candidates or scans, rows evaluated, exact answers, bytes of tree,
// LSH and FAISS.
void coterie_approx_search(const void* data, int32_t kind, double target,
                           int64_t effort, int64_t batch, int64_t m,
                           const float* queries, int64_t k, uint64_t* ids,
                           double* distances, double* counts) {
  const auto& index = *static_cast<const coterie::Data*>(data);
  coterie::Counts sum;
  for (int64_t q = 0; q < m; q += batch) {
    const int64_t step = std::min(batch, m - q);
    std::vector<coterie::TopK> tops(static_cast<size_t>(step),
                                    coterie::TopK(k));
    const coterie::Counts some =
        index.Search(static_cast<coterie::Kind>(kind), {target, effort},
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
  counts[5] = index.FaissBytes();
}

}  // extern "C"
