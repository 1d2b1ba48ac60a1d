// Every kind of index behind one interface, at its exact setting: for
// kinds_test.cc.

#ifndef COTERIE_INDEX_TEST_KINDS_H_
#define COTERIE_INDEX_TEST_KINDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "index/certified_codes.h"
#include "index/certified_query.h"
#include "index/certified_scan.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/faiss_factory.h"
#include "index/faiss_index.h"
#include "index/faiss_search.h"
#include "index/lsh.h"
#include "index/metric.h"
#include "index/test_vectors.h"
#include "index/top_k.h"
#include "index/tree.h"
#include "index/tree_types.h"
#include "index/vectors.h"

namespace coterie {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr Metric kMetrics[] = {Metric::kSquaredL2, Metric::kInnerProduct,
                                      Metric::kCosine};

inline void OneByOne(int64_t count, absl::FunctionRef<void(int64_t)> task) {
  for (int64_t i = 0; i < count; ++i) task(i);
}

// Points as a user names them.
struct Points {
  int64_t d = 1;
  std::vector<PointId> ids;
  std::vector<float> data;
  std::vector<bool> dead;  // empty: none

  int64_t n() const { return static_cast<int64_t>(ids.size()); }
  RowsView view() const { return {data.data(), n(), d, d}; }
};

struct Outcome {
  bool finished = false;
  std::vector<std::vector<Neighbor>> answers;
  std::vector<int64_t> accounted;  // rows of each query's account
};

// A kind of index over points, in whatever order of rows it wants.
class Index {
 public:
  Index(Metric metric, const Points& points)
      : metric_(metric), points_(points) {
    order_.resize(points.ids.size());
    std::iota(order_.begin(), order_.end(), 0);
  }
  virtual ~Index() = default;

  Outcome Search(
      const std::vector<float>& queries, int64_t k, double bound = kInfinity,
      absl::FunctionRef<bool()> stop = [] { return false; }) const {
    const int64_t m = static_cast<int64_t>(queries.size()) / points_.d;
    const ScanQueries prepared(metric_,
                               {queries.data(), m, points_.d, points_.d});
    std::vector<TopK> tops(static_cast<size_t>(m), TopK(k, bound));
    Outcome outcome;
    outcome.accounted.resize(tops.size());
    outcome.finished = Run(prepared, absl::MakeSpan(tops), outcome, stop);
    for (TopK& top : tops) outcome.answers.push_back(top.TakeSorted());
    return outcome;
  }

 protected:
  virtual bool Run(const ScanQueries& queries, absl::Span<TopK> tops,
                   Outcome& outcome, absl::FunctionRef<bool()> stop) const = 0;

  // Lays the points out in order_.
  void LayOut() {
    for (int64_t i : order_) {
      const size_t at = static_cast<size_t>(i);
      const VectorView row = points_.view().row(i);
      data_.insert(data_.end(), row.begin(), row.end());
      ids_.push_back(points_.ids[at]);
      norms_.push_back(CanonicalSquaredNorm(row));
      if (live_.size() * 64 < ids_.size()) live_.push_back(0);
      const bool dead = !points_.dead.empty() && points_.dead[at];
      live_.back() |= uint64_t{!dead} << ((ids_.size() - 1) % 64);
    }
  }
  RowsView view() const {
    return {data_.data(), static_cast<int64_t>(ids_.size()), points_.d,
            points_.d};
  }
  ScanRows rows() const {
    return {view(), ids_.data(), norms_.data(), live_.data()};
  }

  const Metric metric_;
  const Points points_;
  std::vector<int64_t> order_;
  std::vector<float> data_;
  std::vector<PointId> ids_;
  std::vector<double> norms_;
  std::vector<uint64_t> live_;
};

class ExactIndex : public Index {
 public:
  ExactIndex(Metric metric, const Points& points) : Index(metric, points) {
    LayOut();
  }

 protected:
  bool Run(const ScanQueries& queries, absl::Span<TopK> tops, Outcome& outcome,
           absl::FunctionRef<bool()> stop) const override {
    std::vector<ScanAccount> accounts(tops.size());
    const bool finished = ExactScan(queries, rows(), 0, view().n, tops,
                                    absl::MakeSpan(accounts), stop);
    for (size_t q = 0; q < tops.size(); ++q) {
      outcome.accounted[q] = accounts[q].evaluated + accounts[q].ruled_out;
    }
    return finished;
  }
};

class CertifiedIndex : public Index {
 public:
  CertifiedIndex(Metric metric, const Points& points) : Index(metric, points) {
    LayOut();
    codes_ = std::make_unique<CertifiedCodes>(metric, view());
  }

 protected:
  bool Run(const ScanQueries& queries, absl::Span<TopK> tops, Outcome& outcome,
           absl::FunctionRef<bool()> stop) const override {
    const CertifiedQueries coded(queries, *codes_);
    std::vector<ScanAccount> accounts(tops.size());
    const bool finished = CertifiedScan(coded, rows(), 0, view().n, tops,
                                        absl::MakeSpan(accounts), stop);
    for (size_t q = 0; q < tops.size(); ++q) {
      outcome.accounted[q] = accounts[q].evaluated + accounts[q].ruled_out;
    }
    return finished;
  }

 private:
  std::unique_ptr<CertifiedCodes> codes_;
};

class TreeIndex : public Index {
 public:
  TreeIndex(Metric metric, const Points& points)
      : Index(metric, points),
        tree_(Tree::Build(metric, points_.view(), OneByOne, &order_)) {
    LayOut();
    codes_ = std::make_unique<CertifiedCodes>(metric, view());
  }

 protected:
  bool Run(const ScanQueries& queries, absl::Span<TopK> tops, Outcome& outcome,
           absl::FunctionRef<bool()> stop) const override {
    const TreeSegment segment = {&tree_, rows(), codes_.get()};
    std::vector<TreeAccount> accounts(tops.size());
    const bool finished =
        TreeSearch(queries, absl::MakeSpan(&segment, 1), TreeLimits(), tops,
                   absl::MakeSpan(accounts), stop);
    for (size_t q = 0; q < tops.size(); ++q) {
      EXPECT_TRUE(accounts[q].exact());
      outcome.accounted[q] = accounts[q].evaluated + accounts[q].ruled_out;
    }
    return finished;
  }

 private:
  Tree tree_;
  std::unique_ptr<CertifiedCodes> codes_;
};

class LshKind : public Index {
 public:
  LshKind(Metric metric, const Points& points)
      : Index(metric, points), index_(Make(metric, points_)) {
    LayOut();
    codes_ = std::make_unique<CertifiedCodes>(metric, view());
  }

 protected:
  bool Run(const ScanQueries& queries, absl::Span<TopK> tops, Outcome& outcome,
           absl::FunctionRef<bool()> stop) const override {
    const LshSegment segment = {&index_, codes_.get(), rows()};
    LshLimits limits;
    limits.target_recall = 1;
    std::vector<LshAccount> accounts(tops.size());
    const bool finished =
        LshSearch(queries, absl::MakeSpan(&segment, 1), limits, tops,
                  absl::MakeSpan(accounts), stop);
    for (size_t q = 0; q < tops.size(); ++q) {
      EXPECT_TRUE(accounts[q].exact());
      outcome.accounted[q] = accounts[q].evaluated + accounts[q].ruled_out;
    }
    return finished;
  }

 private:
  static LshIndex Make(Metric metric, const Points& points) {
    LshIndex::Options options;
    options.tables = 4;
    return LshIndex::Build(metric, points.view(), options, OneByOne);
  }

  LshIndex index_;
  std::unique_ptr<CertifiedCodes> codes_;
};

class FaissKind : public Index {
 public:
  FaissKind(Metric metric, const Points& points, const char* factory)
      : Index(metric, points) {
    LayOut();
    codes_ = std::make_unique<CertifiedCodes>(metric, view());
    auto built = FaissIndex::Build(
        metric, rows(), *FaissFactory::Parse(factory), [] { return false; });
    EXPECT_TRUE(built.ok()) << built.status();
    index_ = std::make_unique<FaissIndex>(*std::move(built));
  }

 protected:
  bool Run(const ScanQueries& queries, absl::Span<TopK> tops, Outcome& outcome,
           absl::FunctionRef<bool()> stop) const override {
    const FaissSegment segment = {index_.get(), codes_.get(), rows()};
    FaissLimits limits;
    limits.target_recall = 1;
    std::vector<FaissAccount> accounts(tops.size());
    const absl::Status status =
        FaissSearch(queries, absl::MakeSpan(&segment, 1), limits, tops,
                    absl::MakeSpan(accounts), stop);
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
    for (size_t q = 0; q < tops.size(); ++q) {
      EXPECT_TRUE(accounts[q].exact());
      outcome.accounted[q] = accounts[q].evaluated + accounts[q].ruled_out;
    }
    return status.ok();
  }

 private:
  std::unique_ptr<FaissIndex> index_;
  std::unique_ptr<CertifiedCodes> codes_;
};

class FaissGraph : public FaissKind {
 public:
  FaissGraph(Metric metric, const Points& points)
      : FaissKind(metric, points, "HNSW8") {}
};

class FaissLists : public FaissKind {
 public:
  FaissLists(Metric metric, const Points& points)
      : FaissKind(metric, points, "IVF16,Flat") {}
};

}  // namespace coterie

#endif  // COTERIE_INDEX_TEST_KINDS_H_
