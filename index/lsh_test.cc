#include "index/lsh.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "index/certified_codes.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/test_vectors.h"
#include "index/top_k.h"
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

// The word vectors of the repository; `every`-th ones are queries.
struct Words {
  explicit Words(int every) {
    std::ifstream file("data/words-10k.npy", std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
    const size_t start = bytes.size() - size_t{10000} * 100 * sizeof(float);
    std::vector<float> all(size_t{10000} * 100);
    std::memcpy(all.data(), bytes.data() + start, bytes.size() - start);
    for (int i = 0; i < 10000; ++i) {
      std::vector<float>& to = i % every == 7 ? queries : rows;
      to.insert(to.end(), all.begin() + i * 100, all.begin() + (i + 1) * 100);
    }
  }
  static RowsView View(const std::vector<float>& v) {
    return {v.data(), static_cast<int64_t>(v.size()) / 100, 100, 100};
  }
  std::vector<float> rows;
  std::vector<float> queries;
};

// Rows with all that a search wants to know of them.
struct Data {
  Data(Metric metric, RowsView view) : view_(view), codes(metric, view) {
    for (int64_t i = 0; i < view.n; ++i) {
      ids.push_back(static_cast<PointId>(i));
      norms.push_back(CanonicalSquaredNorm(view.row(i)));
    }
  }
  ScanRows rows(const uint64_t* live = nullptr) const {
    return {view_, ids.data(), norms.data(), live};
  }

  RowsView view_;
  CertifiedCodes codes;
  std::vector<PointId> ids;
  std::vector<double> norms;
};

struct Result {
  Answers answers;
  std::vector<LshAccount> accounts;
};

Result Search(const ScanQueries& queries, const LshIndex& index,
              const Data& data, int64_t k, const LshLimits& limits,
              const uint64_t* live = nullptr) {
  const LshSegment segment = {&index, &data.codes, data.rows(live)};
  std::vector<TopK> tops(static_cast<size_t>(queries.size()), TopK(k));
  Result result;
  result.accounts.resize(tops.size());
  EXPECT_TRUE(LshSearch(queries, absl::MakeSpan(&segment, 1), limits,
                        absl::MakeSpan(tops), absl::MakeSpan(result.accounts),
                        Never));
  for (TopK& top : tops) result.answers.push_back(top.TakeSorted());
  return result;
}

Answers Canonical(const ScanQueries& queries, const Data& data, int64_t k,
                  const uint64_t* live = nullptr) {
  std::vector<TopK> tops(static_cast<size_t>(queries.size()), TopK(k));
  std::vector<ScanAccount> accounts(tops.size());
  EXPECT_TRUE(ExactScan(queries, data.rows(live), 0, data.view_.n,
                        absl::MakeSpan(tops), absl::MakeSpan(accounts), Never));
  Answers answers;
  for (TopK& top : tops) answers.push_back(top.TakeSorted());
  return answers;
}

// Of each query's true neighbours, the share found.
std::vector<double> Recalls(const Answers& found, const Answers& truth) {
  std::vector<double> recalls;
  for (size_t q = 0; q < truth.size(); ++q) {
    int64_t hits = 0;
    for (const Neighbor& n : truth[q]) {
      hits += std::count(found[q].begin(), found[q].end(), n);
    }
    recalls.push_back(static_cast<double>(hits) /
                      static_cast<double>(truth[q].size()));
  }
  return recalls;
}

double Mean(const std::vector<double>& v) {
  double sum = 0;
  for (double x : v) sum += x;
  return sum / static_cast<double>(v.size());
}

TEST(Lsh, FindsTheShareOfRealNeighboursThatWasAskedFor) {
  const Words words(50);
  for (Metric metric : kMetrics) {
    const Data data(metric, Words::View(words.rows));
    const LshIndex index =
        LshIndex::Build(metric, data.view_, LshIndex::Options(), OneByOne);
    const ScanQueries queries(metric, Words::View(words.queries));
    const Answers truth = Canonical(queries, data, 10);
    for (double target : {0.5, 0.8, 0.9, 0.99}) {
      LshLimits limits;
      limits.target_recall = target;
      const Result result = Search(queries, index, data, 10, limits);
      // 200 queries: two standard errors are 0.02.
      EXPECT_GE(Mean(Recalls(result.answers, truth)), target - 0.02)
          << MetricName(metric);
      for (size_t q = 0; q < truth.size(); ++q) {
        const LshAccount& a = result.accounts[q];
        EXPECT_EQ(a.evaluated + a.ruled_out + a.unseen, data.view_.n);
        EXPECT_EQ(a.exact(), a.scanned);
        if (a.exact()) {
          EXPECT_EQ(result.answers[q], truth[q]);
        }
      }
    }
  }
}

// What a search cost, in rows of a scan.
double CostOf(const Result& result, int64_t rows) {
  double cost = 0;
  for (const LshAccount& a : result.accounts) {
    cost += static_cast<double>(a.candidates * LshIndex::kRowsPerCandidate);
    if (a.scanned) cost += static_cast<double>(rows);
  }
  return cost;
}

// The rule alone is made for the worst case. Also with a third of the rows
// dead, which training did not see.
TEST(Lsh, OnceTrainedFindsAsMuchAsWasAskedForForLess) {
  const Words words(50);
  std::mt19937_64 random(TestSeed());
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  for (Metric metric : kMetrics) {
    const Data data(metric, Words::View(words.rows));
    std::vector<uint64_t> live(static_cast<size_t>(data.view_.n / 64 + 1));
    for (int64_t i = 0; i < data.view_.n; ++i) {
      live[static_cast<size_t>(i / 64)] |= uint64_t{random() % 3 != 0}
                                           << (i % 64);
    }
    LshIndex index =
        LshIndex::Build(metric, data.view_, LshIndex::Options(), OneByOne);
    const ScanQueries queries(metric, Words::View(words.queries));
    EXPECT_GT(index.CostFor(10, 0.8), 1);
    LshLimits limits;
    limits.target_recall = 0.8;
    const double before =
        CostOf(Search(queries, index, data, 10, limits), data.view_.n);
    index.Train(data.rows(), data.codes, Backwards);
    const double after =
        CostOf(Search(queries, index, data, 10, limits), data.view_.n);
    EXPECT_LT(after, 0.9 * before) << MetricName(metric);
    for (const uint64_t* alive : {static_cast<const uint64_t*>(nullptr),
                                  static_cast<const uint64_t*>(live.data())}) {
      const Answers truth = Canonical(queries, data, 10, alive);
      for (double target : {0.5, 0.8, 0.9, 0.95, 0.99}) {
        limits.target_recall = target;
        const Result found = Search(queries, index, data, 10, limits, alive);
        EXPECT_GE(Mean(Recalls(found.answers, truth)), target - 0.02)
            << MetricName(metric) << (alive != nullptr ? ", a third dead" : "");
      }
    }
    // As the same index from its parts.
    const auto copy = LshIndex::FromParts(index.parts());
    ASSERT_TRUE(copy.ok()) << copy.status();
    EXPECT_EQ(CostOf(Search(queries, *copy, data, 10, limits), data.view_.n),
              CostOf(Search(queries, index, data, 10, limits), data.view_.n));
  }
}

// A long test: each tenth word is a query; the mean of resampled recalls lies
// below the target in no more than a few of 1,000 draws.
TEST(LshLong, MeetsItsTargetUnderTheBootstrap) {
  std::mt19937_64 random(TestSeed());
  const Words words(10);
  for (Metric metric : kMetrics) {
    const Data data(metric, Words::View(words.rows));
    const ScanQueries queries(metric, Words::View(words.queries));
    for (int64_t k : {1, 10, 100}) {
      const Answers truth = Canonical(queries, data, k);
      for (double target : {0.8, 0.9, 0.95, 0.99}) {
        std::vector<double> recalls;
        for (uint64_t seed : {1, 2, 3}) {
          LshIndex::Options options;
          options.seed = seed;
          const LshIndex index =
              LshIndex::Build(metric, data.view_, options, OneByOne);
          LshLimits limits;
          limits.target_recall = target;
          const std::vector<double> more =
              Recalls(Search(queries, index, data, k, limits).answers, truth);
          recalls.insert(recalls.end(), more.begin(), more.end());
        }
        int below = 0;
        for (int draw = 0; draw < 1000; ++draw) {
          double sum = 0;
          for (size_t i = 0; i < recalls.size(); ++i) {
            sum += recalls[random() % recalls.size()];
          }
          below += sum / static_cast<double>(recalls.size()) < target ? 1 : 0;
        }
        EXPECT_LE(below, 25) << MetricName(metric) << " k=" << k << " target "
                             << target << " mean " << Mean(recalls);
      }
    }
  }
}

TEST(Lsh, ReadsFewRowsWhereNeighboursAreNear) {
  std::mt19937_64 random(TestSeed());
  std::normal_distribution<float> normal;
  std::vector<float> rows;
  std::vector<float> queries;
  for (int c = 0; c < 2000; ++c) {
    std::vector<float> centre;
    for (int j = 0; j < 32; ++j) centre.push_back(normal(random));
    for (int i = 0; i < 10; ++i) {
      std::vector<float>& to = i == 0 && c % 40 == 0 ? queries : rows;
      for (int j = 0; j < 32; ++j)
        to.push_back(centre[j] + 0.1f * normal(random));
    }
  }
  const int64_t n = static_cast<int64_t>(rows.size()) / 32;
  for (Metric metric : {Metric::kSquaredL2, Metric::kCosine}) {
    const Data data(metric, {rows.data(), n, 32, 32});
    const LshIndex index =
        LshIndex::Build(metric, data.view_, LshIndex::Options(), OneByOne);
    const ScanQueries prepared(metric, {queries.data(), 50, 32, 32});
    const Answers truth = Canonical(prepared, data, 5);
    const Result result = Search(prepared, index, data, 5, LshLimits());
    EXPECT_GE(Mean(Recalls(result.answers, truth)), 0.9);
    for (const LshAccount& a : result.accounts) {
      EXPECT_FALSE(a.scanned);
      EXPECT_LT(a.candidates, n / 20);
    }
  }
}

TEST(Lsh, LooksAtLiveRowsOnly) {
  std::mt19937_64 random(TestSeed());
  const Words words(100);
  for (Metric metric : kMetrics) {
    const Data data(metric, Words::View(words.rows));
    std::vector<uint64_t> live;
    for (int64_t i = 0; i < data.view_.n; i += 64) live.push_back(random());
    const LshIndex index =
        LshIndex::Build(metric, data.view_, LshIndex::Options(), OneByOne);
    const ScanQueries queries(metric, Words::View(words.queries));
    const Answers truth = Canonical(queries, data, 10, live.data());
    const Result result =
        Search(queries, index, data, 10, LshLimits(), live.data());
    EXPECT_GE(Mean(Recalls(result.answers, truth)), 0.88);
    for (const std::vector<Neighbor>& answer : result.answers) {
      for (const Neighbor& n : answer) {
        EXPECT_TRUE(live[n.id / 64] >> (n.id % 64) & 1);
      }
    }
  }
}

TEST(Lsh, KeepsToMaxCandidates) {
  const Words words(100);
  const Data data(Metric::kCosine, Words::View(words.rows));
  const LshIndex index = LshIndex::Build(Metric::kCosine, data.view_,
                                         LshIndex::Options(), OneByOne);
  const ScanQueries queries(Metric::kCosine, Words::View(words.queries));
  LshLimits limits;
  limits.target_recall = 0.99;
  limits.max_candidates = 50;
  for (const LshAccount& a :
       Search(queries, index, data, 10, limits).accounts) {
    // It stops after the bucket that reaches the limit.
    EXPECT_LT(a.candidates, 9900);
    EXPECT_FALSE(a.scanned);
  }
}

TEST(Lsh, IsTheSameBuiltAtOnceOrByInsertsWhateverTheThreads) {
  std::mt19937_64 random(TestSeed());
  for (Metric metric : kMetrics) {
    const TestVectors data =
        MakeTestVectors("gaussian", 5000, 1, 20, true, random);
    LshIndex::Options options;
    options.tables = 20;
    options.expected_rows = 5000;
    const RowsView all = data.rows_view();
    const LshIndex whole = LshIndex::Build(metric, all, options, OneByOne);
    const LshIndex threads = LshIndex::Build(metric, all, options, Backwards);
    EXPECT_EQ(whole.parts().rows, threads.parts().rows);
    EXPECT_EQ(whole.parts().sketches, threads.parts().sketches);
    if (metric == Metric::kSquaredL2)
      continue;  // the centre is that of a build
    LshIndex grown =
        LshIndex::Build(metric, {all.data, 3000, 20, 20}, options, OneByOne);
    grown.Insert({all.data, 3001, 20, 20}, OneByOne);
    grown.Insert(all, Backwards);
    EXPECT_EQ(grown.size(), 5000);
    EXPECT_EQ(grown.parts().sketches, whole.parts().sketches);
    if (metric == Metric::kCosine) {
      EXPECT_EQ(grown.parts().rows, whole.parts().rows);
      EXPECT_EQ(grown.parts().directory, whole.parts().directory);
    }
  }
}

TEST(Lsh, FindsInsertedRows) {
  const Words words(100);
  const RowsView all = Words::View(words.rows);
  for (Metric metric : kMetrics) {
    LshIndex index = LshIndex::Build(metric, {all.data, 2000, 100, 100},
                                     LshIndex::Options(), OneByOne);
    for (int64_t n : {2001, 6000, 9900}) {
      index.Insert({all.data, n, 100, 100}, OneByOne);
    }
    const Data data(metric, all);
    const ScanQueries queries(metric, Words::View(words.queries));
    EXPECT_GE(
        Mean(Recalls(Search(queries, index, data, 10, LshLimits()).answers,
                     Canonical(queries, data, 10))),
        0.88)
        << MetricName(metric);
  }
}

TEST(Lsh, StopsWhenTold) {
  const Words words(100);
  const Data data(Metric::kCosine, Words::View(words.rows));
  const LshIndex index = LshIndex::Build(Metric::kCosine, data.view_,
                                         LshIndex::Options(), OneByOne);
  const ScanQueries queries(Metric::kCosine, Words::View(words.queries));
  const LshSegment segment = {&index, &data.codes, data.rows()};
  for (int asked_before : {0, 1, 3}) {
    std::vector<TopK> tops(100, TopK(10));
    std::vector<LshAccount> accounts(100);
    int asked = 0;
    EXPECT_FALSE(LshSearch(queries, absl::MakeSpan(&segment, 1), LshLimits(),
                           absl::MakeSpan(tops), absl::MakeSpan(accounts),
                           [&] { return asked++ == asked_before; }));
    EXPECT_EQ(asked, asked_before + 1);
  }
}

TEST(Lsh, IsRestoredFromItsPartsAndRefusesOthers) {
  std::mt19937_64 random(TestSeed());
  const TestVectors vectors =
      MakeTestVectors("gaussian", 1000, 5, 8, true, random);
  LshIndex::Options options;
  options.tables = 3;
  const Data data(Metric::kSquaredL2, vectors.rows_view());
  const LshIndex index =
      LshIndex::Build(Metric::kSquaredL2, data.view_, options, OneByOne);
  const LshIndex::Parts good = index.parts();
  const auto copy = LshIndex::FromParts(good);
  ASSERT_TRUE(copy.ok()) << copy.status();
  const ScanQueries queries(Metric::kSquaredL2, vectors.queries_view());
  EXPECT_EQ(Search(queries, *copy, data, 5, LshLimits()).answers,
            Search(queries, index, data, 5, LshLimits()).answers);
  const auto refused = [](const LshIndex::Parts& parts) {
    return absl::IsInvalidArgument(LshIndex::FromParts(parts).status());
  };
  LshIndex::Parts bad = good;
  bad.n = 999;
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.tables = 0;
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.hash_bits = 60;
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.centre.remove_suffix(1);
  EXPECT_TRUE(refused(bad));
  std::vector<uint32_t> rows(good.rows.begin(), good.rows.end());
  rows[17] = 1000;
  bad = good;
  bad.rows = rows;
  EXPECT_TRUE(refused(bad));
  std::vector<uint32_t> directory(good.directory.begin(), good.directory.end());
  directory[5] = 1000;
  bad = good;
  bad.directory = directory;
  EXPECT_TRUE(refused(bad));
}

}  // namespace
}  // namespace coterie
