#include "index/tree.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "index/certified_codes.h"
#include "index/certified_test_data.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/simd.h"
#include "index/test_vectors.h"
#include "index/top_k.h"
#include "index/tree_boxes.h"
#include "index/tree_cells.h"
#include "index/tree_types.h"
#include "index/vectors.h"

namespace coterie {
namespace {

constexpr Metric kMetrics[] = {Metric::kSquaredL2, Metric::kInnerProduct,
                               Metric::kCosine};

using Answers = std::vector<std::vector<Neighbor>>;

bool Never() { return false; }

void OneByOne(int64_t count, absl::FunctionRef<void(int64_t)> task) {
  for (int64_t i = 0; i < count; ++i) task(i);
}

void Backwards(int64_t count, absl::FunctionRef<void(int64_t)> task) {
  std::thread other([&] {
    for (int64_t i = count - 1; i >= 0; i -= 2) task(i);
  });
  for (int64_t i = count - 2; i >= 0; i -= 2) task(i);
  other.join();
}

// Rows laid out as their tree wants them.
struct Segment {
  Segment(Metric metric, RowsView raw, absl::Span<const PointId> raw_ids,
          std::mt19937_64* dead = nullptr, bool trained = false)
      : d(raw.d) {
    std::vector<int64_t> order;
    tree = std::make_unique<Tree>(Tree::Build(metric, raw, OneByOne, &order));
    for (int64_t i : order) {
      data.insert(data.end(), raw.row(i).begin(), raw.row(i).end());
      ids.push_back(raw_ids[static_cast<size_t>(i)]);
      norms.push_back(CanonicalSquaredNorm(raw.row(i)));
    }
    for (int64_t i = 0; dead != nullptr && i < raw.n; i += 64) {
      live.push_back((*dead)() | (*dead)());
    }
    codes = std::make_unique<CertifiedCodes>(metric, View());
    if (trained) tree->Train(rows(), codes.get(), OneByOne);
  }

  RowsView View() const {
    return {data.data(), static_cast<int64_t>(ids.size()), d, d};
  }
  ScanRows rows() const {
    return {View(), ids.data(), norms.data(),
            live.empty() ? nullptr : live.data()};
  }
  bool Live(size_t i) const {
    return live.empty() || (live[i / 64] >> (i % 64) & 1) != 0;
  }
  TreeSegment segment() const { return {tree.get(), rows(), codes.get()}; }
  int64_t d;
  std::unique_ptr<Tree> tree;
  std::unique_ptr<CertifiedCodes> codes;
  std::vector<float> data;
  std::vector<PointId> ids;
  std::vector<double> norms;
  std::vector<uint64_t> live;
};

std::vector<PointId> Ids(int64_t n, uint64_t first = 0) {
  std::vector<PointId> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

struct Result {
  Answers answers;
  std::vector<TreeAccount> accounts;
};

Result Search(const ScanQueries& queries,
              const std::vector<const Segment*>& parts, int64_t k,
              const TreeLimits& limits = {},
              double bound = std::numeric_limits<double>::infinity()) {
  std::vector<TreeSegment> segments;
  for (const Segment* s : parts) segments.push_back(s->segment());
  std::vector<TopK> tops(static_cast<size_t>(queries.size()), TopK(k, bound));
  Result result;
  result.accounts.resize(tops.size());
  EXPECT_TRUE(TreeSearch(queries, segments, limits, absl::MakeSpan(tops),
                         absl::MakeSpan(result.accounts), Never));
  for (TopK& top : tops) result.answers.push_back(top.TakeSorted());
  return result;
}

// The definition.
Answers Canonical(const ScanQueries& queries,
                  const std::vector<const Segment*>& parts, int64_t k) {
  Answers answers;
  for (int64_t q = 0; q < queries.size(); ++q) {
    TopK top(k);
    for (const Segment* s : parts) {
      for (size_t i = 0; i < s->ids.size(); ++i) {
        if (!s->Live(i)) continue;
        top.Offer({s->ids[i],
                   CanonicalDistance(queries.metric(), queries.query(q),
                                     s->View().row(static_cast<int64_t>(i)))});
      }
    }
    answers.push_back(top.TakeSorted());
  }
  return answers;
}

int64_t LiveRows(const std::vector<const Segment*>& parts) {
  int64_t live = 0;
  for (const Segment* s : parts) {
    for (size_t i = 0; i < s->ids.size(); ++i) live += s->Live(i) ? 1 : 0;
  }
  return live;
}

void ExpectAccounts(const Result& result, int64_t live, bool exact) {
  for (const TreeAccount& a : result.accounts) {
    EXPECT_EQ(a.evaluated + a.ruled_out + a.unseen, live);
    EXPECT_GE(a.ruled_out, 0);
    EXPECT_TRUE(a.exact() || !exact);
  }
}

double Recall(const Answers& found, const Answers& truth) {
  int64_t hits = 0, all = 0;
  for (size_t q = 0; q < truth.size(); ++q) {
    for (const Neighbor& n : truth[q]) {
      hits += std::count(found[q].begin(), found[q].end(), n);
    }
    all += static_cast<int64_t>(truth[q].size());
  }
  return static_cast<double>(hits) / static_cast<double>(all);
}

// The word vectors of the repository, every tenth a query.
struct Words {
  Words() {
    std::ifstream file("data/words-10k.npy", std::ios::binary);
    std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
    const size_t start = bytes.size() - size_t{10000} * 100 * sizeof(float);
    std::vector<float> all(size_t{10000} * 100);
    std::memcpy(all.data(), bytes.data() + start, bytes.size() - start);
    for (size_t i = 0; i < 10000; ++i) {
      std::vector<float>& to = i % 50 == 7 ? queries : rows;
      to.insert(to.end(), all.begin() + i * 100, all.begin() + (i + 1) * 100);
    }
  }
  static RowsView View(const std::vector<float>& v) {
    return {v.data(), static_cast<int64_t>(v.size()) / 100, 100, 100};
  }
  std::vector<float> rows, queries;
};

TEST(Tree, EqualsACanonicalScanOfEveryKindOfData) {
  std::mt19937_64 random(TestSeed());
  for (const std::string& kind : CertifiedTestKinds()) {
    for (Metric metric : kMetrics) {
      for (int64_t d : {1, 3, 16, 20}) {
        SCOPED_TRACE(kind + " " + std::string(MetricName(metric)) + " d=" +
                     std::to_string(d) + " seed=" + std::to_string(TestSeed()));
        const CertifiedTestData data =
            MakeCertifiedTestData(kind, metric, 900, 6, d, random);
        const Segment part(metric, data.rows_view(), Ids(900), &random);
        const ScanQueries queries(metric, data.queries_view());
        const int64_t k = 1 + static_cast<int64_t>(random() % 20);
        const Result result = Search(queries, {&part}, k);
        ASSERT_EQ(result.answers, Canonical(queries, {&part}, k));
        ExpectAccounts(result, LiveRows({&part}), true);
      }
    }
  }
}

TEST(Tree, AnswersFromSegmentsAsFromOne) {
  std::mt19937_64 random(TestSeed());
  for (Metric metric : kMetrics) {
    for (int64_t d : {2, 24}) {
      const TestVectors data =
          MakeTestVectors("gaussian", 5000, 20, d, true, random);
      const RowsView all = data.rows_view();
      std::vector<std::unique_ptr<Segment>> parts;
      std::vector<const Segment*> views;
      int64_t begin = 0;
      for (int64_t end : {0, 1, 700, 4200, 5000}) {
        parts.push_back(std::make_unique<Segment>(
            metric, RowsView{all.row(begin).data(), end - begin, d, d},
            Ids(end - begin, static_cast<uint64_t>(begin)), &random));
        views.push_back(parts.back().get());
        begin = end;
      }
      const ScanQueries queries(metric, data.queries_view());
      const Result result = Search(queries, views, 7);
      EXPECT_EQ(result.answers, Canonical(queries, views, 7))
          << "seed " << TestSeed();
      ExpectAccounts(result, LiveRows(views), true);
    }
  }
}

TEST(Tree, FollowsEveryStepOfADatasetOfLowIntrinsicDimension) {
  std::mt19937_64 random(TestSeed());
  std::normal_distribution<float> normal;
  std::vector<float> basis(3 * 40);
  for (float& v : basis) v = normal(random);
  std::vector<float> rows;
  for (int i = 0; i < 12000; ++i) {
    const float x[] = {normal(random), normal(random), normal(random)};
    for (int j = 0; j < 40; ++j) {
      rows.push_back(x[0] * basis[j] + x[1] * basis[40 + j] +
                     x[2] * basis[80 + j]);
    }
  }
  const Segment part(Metric::kSquaredL2, {rows.data(), 11900, 40, 40},
                     Ids(11900));
  const ScanQueries queries(Metric::kSquaredL2,
                            {rows.data() + 11900 * 40, 100, 40, 40});
  const Result result = Search(queries, {&part}, 10);
  EXPECT_EQ(result.answers, Canonical(queries, {&part}, 10));
  int64_t leaves = 0;
  int scanned = 0;
  for (const TreeAccount& a : result.accounts) {
    scanned += a.scanned ? 1 : 0;
    leaves += a.leaves;
  }
  EXPECT_LT(scanned, 10);
  // The ball bound closes: most of the cells are never read.
  EXPECT_LT(leaves, 100 * part.tree->cells()->cells() / 2);
}

TEST(Tree, HandsOverToTheScanWherePruningFails) {
  std::mt19937_64 random(TestSeed());
  const TestVectors data =
      MakeTestVectors("gaussian", 3000, 10, 64, true, random);
  const Segment part(Metric::kSquaredL2, data.rows_view(), Ids(3000));
  const ScanQueries queries(Metric::kSquaredL2, data.queries_view());
  const Result result = Search(queries, {&part}, 10);
  EXPECT_EQ(result.answers, Canonical(queries, {&part}, 10));
  for (const TreeAccount& a : result.accounts) EXPECT_TRUE(a.scanned);
  ExpectAccounts(result, 3000, true);
}

TEST(Tree, KeepsToMaxLeavesAndCountsWhatItLeft) {
  std::mt19937_64 random(TestSeed());
  for (Metric metric : kMetrics) {
    for (int64_t d : {3, 32}) {
      const TestVectors data =
          MakeTestVectors("gaussian", 4000, 20, d, true, random);
      const Segment part(metric, data.rows_view(), Ids(4000), &random);
      const ScanQueries queries(metric, data.queries_view());
      const Answers truth = Canonical(queries, {&part}, 10);
      for (int64_t leaves : {1, 2, 5, 1000}) {
        TreeLimits limits;
        limits.max_leaves = leaves;
        const Result result = Search(queries, {&part}, 10, limits);
        ExpectAccounts(result, LiveRows({&part}), leaves == 1000);
        for (size_t q = 0; q < truth.size(); ++q) {
          EXPECT_LE(result.accounts[q].leaves, leaves);
          // The certificate is never wrong.
          if (result.accounts[q].exact()) {
            EXPECT_EQ(result.answers[q], truth[q]);
          }
        }
      }
    }
  }
}

TEST(Tree, KeepsItsWordOnEpsilon) {
  std::mt19937_64 random(TestSeed());
  for (Metric metric : {Metric::kSquaredL2, Metric::kCosine}) {
    for (int64_t d : {4, 24}) {
      const TestVectors data =
          MakeTestVectors("gaussian", 5000, 30, d, true, random);
      const Segment part(metric, data.rows_view(), Ids(5000));
      const ScanQueries queries(metric, data.queries_view());
      const Answers truth = Canonical(queries, {&part}, 5);
      for (double epsilon : {0.1, 1.0, 10.0}) {
        TreeLimits limits;
        limits.epsilon = epsilon;
        const Result result = Search(queries, {&part}, 5, limits);
        ExpectAccounts(result, 5000, false);
        for (size_t q = 0; q < truth.size(); ++q) {
          ASSERT_EQ(result.answers[q].size(), 5u);
          for (size_t i = 0; i < 5; ++i) {
            EXPECT_LE(result.answers[q][i].distance,
                      (1 + epsilon) * truth[q][i].distance);
          }
          if (result.accounts[q].exact()) {
            EXPECT_EQ(result.answers[q], truth[q]);
          }
        }
      }
    }
  }
}

TEST(Tree, FindsThePartOfRealNeighboursThatWasAskedFor) {
  const Words words;
  for (Metric metric : kMetrics) {
    const Segment part(metric, Words::View(words.rows), Ids(9800), nullptr,
                       true);
    ASSERT_TRUE(part.tree->cells()->trained());
    const ScanQueries queries(metric, Words::View(words.queries));
    const Answers truth = Canonical(queries, {&part}, 10);
    for (double target : {0.8, 0.9, 0.95, 0.99}) {
      TreeLimits limits;
      limits.target_recall = target;
      const Result result = Search(queries, {&part}, 10, limits);
      // 2,000 neighbours of 200 queries: two standard errors are 0.02.
      EXPECT_GE(Recall(result.answers, truth), target - 0.02)
          << MetricName(metric);
      ExpectAccounts(result, 9800, false);
      if (target <= 0.9 && metric != Metric::kInnerProduct) {
        int64_t read = 0;
        for (const TreeAccount& a : result.accounts) read += a.leaves;
        EXPECT_LT(read, 200 * part.tree->cells()->cells() / 2);
      }
    }
  }
}

TEST(Tree, IsTheSameWhateverTheThreads) {
  std::mt19937_64 random(TestSeed());
  for (int64_t d : {3, 20}) {
    const TestVectors data =
        MakeTestVectors("gaussian", 6000, 1, d, true, random);
    std::vector<int64_t> orders[2];
    const Tree one =
        Tree::Build(Metric::kCosine, data.rows_view(), OneByOne, &orders[0]);
    const Tree two =
        Tree::Build(Metric::kCosine, data.rows_view(), Backwards, &orders[1]);
    EXPECT_EQ(orders[0], orders[1]);
    if (d == 3) {
      EXPECT_EQ(one.boxes()->parts().boxes, two.boxes()->parts().boxes);
      EXPECT_EQ(one.boxes()->parts().lanes, two.boxes()->parts().lanes);
    } else {
      EXPECT_EQ(one.cells()->parts().means, two.cells()->parts().means);
      EXPECT_EQ(one.cells()->parts().radii, two.cells()->parts().radii);
    }
  }
}

TEST(Tree, StopsWhenTold) {
  std::mt19937_64 random(TestSeed());
  for (int64_t d : {8, 40}) {
    const TestVectors data =
        MakeTestVectors("gaussian", 8000, 50, d, true, random);
    const Segment part(Metric::kSquaredL2, data.rows_view(), Ids(8000));
    const ScanQueries queries(Metric::kSquaredL2, data.queries_view());
    const TreeSegment segment = part.segment();
    for (int asked_before : {0, 1, 3}) {
      std::vector<TopK> tops(50, TopK(10));
      std::vector<TreeAccount> accounts(50);
      int asked = 0;
      EXPECT_FALSE(TreeSearch(queries, absl::MakeSpan(&segment, 1), {},
                              absl::MakeSpan(tops), absl::MakeSpan(accounts),
                              [&] { return asked++ == asked_before; }));
      EXPECT_EQ(asked, asked_before + 1);
    }
  }
}

TEST(BoxTree, IsRestoredFromItsParts) {
  std::mt19937_64 random(TestSeed());
  const TestVectors data =
      MakeTestVectors("gaussian", 2000, 9, 5, true, random);
  const Segment part(Metric::kSquaredL2, data.rows_view(), Ids(2000));
  const auto copy = BoxTree::FromParts(part.tree->boxes()->parts());
  ASSERT_TRUE(copy.ok()) << copy.status();
  const ScanQueries queries(Metric::kSquaredL2, data.queries_view());
  const BoxSegment segment = {&*copy, part.rows()};
  std::vector<TopK> tops(9, TopK(4));
  std::vector<TreeAccount> accounts(9);
  ASSERT_TRUE(BoxTreeSearch(queries, absl::MakeSpan(&segment, 1), {},
                            absl::MakeSpan(tops), absl::MakeSpan(accounts),
                            Never));
  const Answers truth = Canonical(queries, {&part}, 4);
  for (size_t q = 0; q < 9; ++q) EXPECT_EQ(tops[q].TakeSorted(), truth[q]);
}

TEST(BoxTree, CountsTheLeavesThatSearchesRead) {
  std::mt19937_64 random(TestSeed());
  const Metric l2 = Metric::kSquaredL2;
  for (const int64_t d : {2, 9}) {
    const auto data = MakeTestVectors("gaussian", 8000, 100, d, true, random);
    const Segment part(l2, data.rows_view(), Ids(8000), nullptr, true);
    const ScanQueries queries(l2, data.queries_view());
    for (const int64_t k : {1, 5, 10, 100, 300}) {
      double leaves = 0;
      for (const auto& a : Search(queries, {&part}, k).accounts) {
        leaves += static_cast<double>(a.leaves) / 100;
      }
      const double told = part.tree->boxes()->Leaves(double(k));
      EXPECT_TRUE(told > leaves / 2 && told < leaves * 3) << d << ' ' << k;
    }
  }
}

TEST(BoxTree, RefusesPartsThatDoNotFitTogether) {
  std::mt19937_64 random(TestSeed());
  const TestVectors data =
      MakeTestVectors("gaussian", 2000, 1, 2, true, random);
  std::vector<int64_t> order;
  const BoxTree tree =
      BoxTree::Build(Metric::kSquaredL2, data.rows_view(), OneByOne, &order);
  const BoxTree::Parts good = tree.parts();
  const auto refused = [](const BoxTree::Parts& parts) {
    return absl::IsInvalidArgument(BoxTree::FromParts(parts).status());
  };
  EXPECT_FALSE(refused(good));
  BoxTree::Parts bad = good;
  bad.d = 3;
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.n = 5000;
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.lanes.remove_suffix(1);
  EXPECT_TRUE(refused(bad));
  for (int32_t child : {0, -64, 1, 1000}) {  // gap, leaf, back, beyond
    std::vector<int32_t> children(good.children.begin(), good.children.end());
    children[16] = child;
    bad = good;
    bad.children = children;
    EXPECT_TRUE(refused(bad)) << child;
  }
  std::vector<int32_t> first(good.first_leaf.begin(), good.first_leaf.end());
  first[2] = 64;
  bad = good;
  bad.first_leaf = first;
  EXPECT_TRUE(refused(bad));
}

TEST(CellTree, IsRestoredFromItsPartsAndRefusesOthers) {
  std::mt19937_64 random(TestSeed());
  const TestVectors data =
      MakeTestVectors("gaussian", 5000, 9, 20, true, random);
  const Segment part(Metric::kSquaredL2, data.rows_view(), Ids(5000), nullptr,
                     true);
  const CellTree::Parts good = part.tree->cells()->parts();
  const auto copy = CellTree::FromParts(good);
  ASSERT_TRUE(copy.ok()) << copy.status();
  for (int64_t k : {1, 10, 100}) {
    EXPECT_EQ(copy->Budget(k, 0.9), part.tree->cells()->Budget(k, 0.9));
  }
  EXPECT_EQ(copy->Budget(101, 0.9), 1);
  EXPECT_EQ(copy->Budget(10, 1), 1);
  const auto refused = [](const CellTree::Parts& parts) {
    return absl::IsInvalidArgument(CellTree::FromParts(parts).status());
  };
  CellTree::Parts bad = good;
  bad.n = 4999;
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.budgets.remove_suffix(1);
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.means.remove_suffix(1);
  EXPECT_TRUE(refused(bad));
  std::vector<int64_t> begins(good.begins.begin(), good.begins.end());
  std::swap(begins[1], begins[2]);
  bad = good;
  bad.begins = begins;
  EXPECT_TRUE(refused(bad));
}

}  // namespace
}  // namespace coterie
