#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "index/certified_guess.h"
#include "index/certified_query.h"
#include "index/certified_scan.h"
#include "index/certified_test_world.h"
#include "index/code_simd.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/shared_threshold.h"
#include "index/test_vectors.h"
#include "index/top_k.h"

namespace coterie {
namespace {

using Depth = CertifiedQueries::Depth;
using World = CertifiedTestWorld;

constexpr Metric kMetrics[] = {Metric::kSquaredL2, Metric::kInnerProduct,
                               Metric::kCosine};

bool Never() { return false; }

// Scans the pieces between `cuts` with one scanner for all of them.
Answers SearchInPieces(const World& world, Depth depth, int64_t k,
                       std::vector<int64_t> cuts, std::mt19937_64& random,
                       const std::vector<int64_t>& leaving = {}) {
  const CertifiedQueries queries(world.scan_queries(), world.codes(),
                                 ActiveCodeKernel(), depth);
  std::vector<TopK> tops(static_cast<size_t>(world.m()), TopK(k));
  std::vector<ScanAccount> accounts(tops.size());
  std::vector<SharedThreshold> shared(tops.size());
  CertifiedScanner scanner(queries, world.rows(), absl::MakeSpan(tops),
                           absl::MakeSpan(shared), &world.plane());
  cuts.push_back(0);
  cuts.push_back(world.n());
  std::sort(cuts.begin(), cuts.end());
  std::vector<std::pair<int64_t, int64_t>> pieces;
  for (size_t i = 1; i < cuts.size(); ++i) {
    pieces.emplace_back(cuts[i - 1], cuts[i]);
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i < leaving.size()) scanner.Leave(leaving[i]);
    EXPECT_TRUE(scanner.Scan(pieces[i].first, pieces[i].second, Never));
  }
  EXPECT_TRUE(scanner.Finish(absl::MakeSpan(accounts), Never));
  Answers answers;
  const int64_t live = world.LiveRows(0, world.n());
  for (size_t q = 0; q < tops.size(); ++q) {
    answers.push_back(tops[q].TakeSorted());
    const auto left = leaving.begin() + static_cast<std::ptrdiff_t>(std::min(
                                            leaving.size(), pieces.size()));
    if (std::find(leaving.begin(), left, static_cast<int64_t>(q)) == left) {
      EXPECT_EQ(accounts[q].evaluated + accounts[q].ruled_out, live);
    }
  }
  return answers;
}

TEST(CertifiedScanner, AnswersDoNotDependOnPiecesAndTheirOrder) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 30; ++round) {
    const std::string kind = round % 2 == 0 ? "grid" : "clusters";
    const Metric metric = kMetrics[round % 3];
    const World world(kind, metric, 5000, 7, 5, random() % 2 == 0, random);
    const int64_t k = round % 5 == 0 ? 600 : 9;
    std::vector<int64_t> cuts;
    for (int i = 0; i < 6; ++i) {
      cuts.push_back(static_cast<int64_t>(random() % 5001));
    }
    for (const Depth depth : {Depth::kCoarse, Depth::kFine}) {
      ASSERT_EQ(SearchInPieces(world, depth, k, cuts, random),
                world.Canonical(0, 5000, k))
          << kind << "; SEED=" << TestSeed();
    }
  }
}

TEST(CertifiedScanner, AQueryThatLeavesChangesNothingForTheOthers) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 20; ++round) {
    const World world("gaussian", kMetrics[round % 3], 4000, 14, 6, true,
                      random);
    const Answers expected = world.Canonical(0, 4000, 10);
    const std::vector<int64_t> leaving = {static_cast<int64_t>(random() % 14),
                                          static_cast<int64_t>(random() % 14)};
    for (const Depth depth : {Depth::kCoarse, Depth::kFine}) {
      const Answers answers =
          SearchInPieces(world, depth, 10, {1000, 2048, 3000}, random, leaving);
      for (size_t q = 0; q < expected.size(); ++q) {
        if (std::find(leaving.begin(), leaving.end(),
                      static_cast<int64_t>(q)) == leaving.end()) {
          ASSERT_EQ(answers[q], expected[q]) << "SEED=" << TestSeed();
        }
      }
    }
  }
}

// Half codes tell no two rows of a hypercube's corners apart that codes do:
// they are not let to send thousands of rows to be re-scored.
TEST(CertifiedScanner, HalfCodesThatRuleOutNothingAreLeftAside) {
  std::mt19937_64 random(TestSeed());
  const World world("gaussian", Metric::kSquaredL2, 8192, 1, 1536, false,
                    random);
  const CertifiedPlane plane(world.codes(), world.rows().rows);
  const CertifiedQueries queries(world.scan_queries(), world.codes());
  ASSERT_EQ(queries.depth(), Depth::kFine);
  std::vector<TopK> tops(1, TopK(10));
  std::vector<ScanAccount> accounts(1);
  ASSERT_TRUE(CertifiedScan(queries, world.rows(), 0, 8192,
                            absl::MakeSpan(tops), absl::MakeSpan(accounts),
                            Never, {}, &plane));
  EXPECT_EQ(tops[0].TakeSorted(), world.Canonical(0, 8192, 10)[0]);
  EXPECT_LT(accounts[0].evaluated, 200) << "SEED=" << TestSeed();
}

TEST(CertifiedScanner, ThreadsThatShareThresholdsFindWhatOneFinds) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 10; ++round) {
    const World world("grid", kMetrics[round % 3], 8000, 6, 4, true, random);
    const CertifiedQueries queries(world.scan_queries(), world.codes());
    std::vector<SharedThreshold> shared(6);
    std::vector<std::vector<TopK>> tops(3, std::vector<TopK>(6, TopK(20)));
    std::vector<std::vector<ScanAccount>> accounts(3,
                                                   std::vector<ScanAccount>(6));
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        CertifiedScanner scanner(queries, world.rows(), absl::MakeSpan(tops[t]),
                                 absl::MakeSpan(shared));
        for (auto row = static_cast<int64_t>(1000 * t); row < 8000;
             row += 3000) {
          EXPECT_TRUE(
              scanner.Scan(row, std::min<int64_t>(row + 1000, 8000), Never));
        }
        EXPECT_TRUE(scanner.Finish(absl::MakeSpan(accounts[t]), Never));
      });
    }
    for (std::thread& thread : threads) thread.join();
    const Answers expected = world.Canonical(0, 8000, 20);
    for (size_t q = 0; q < 6; ++q) {
      std::vector<std::vector<Neighbor>> lists;
      int64_t rows = 0;
      for (size_t t = 0; t < 3; ++t) {
        lists.push_back(tops[t][q].TakeSorted());
        rows += accounts[t][q].evaluated + accounts[t][q].ruled_out;
      }
      ASSERT_EQ(MergeTopK(lists, 20).neighbors, expected[q])
          << "SEED=" << TestSeed();
      EXPECT_EQ(rows, world.LiveRows(0, 8000));
    }
  }
}

// What scanners of disjoint pieces find with guesses, finished query by query
// as one; again without for those whose guess has failed. As a pass does it.
class Guessed {
 public:
  Guessed(const World& world, int64_t k, Depth depth)
      : world_(world),
        k_(k),
        queries_(world.scan_queries(), world.codes(), ActiveCodeKernel(),
                 depth),
        shared_(static_cast<size_t>(world.m())),
        guesses_(shared_.size()),
        tops_(kScanners, std::vector<TopK>(shared_.size(), TopK(k))),
        accounts_(shared_.size()) {}

  std::vector<GuessedThreshold>& guesses() { return guesses_; }
  int failed() const { return failed_; }

  void SetByRows() {
    const std::vector<int64_t> ks(guesses_.size(), k_);
    GuessThresholds(queries_, world_.rows(), world_.LiveRows(0, world_.n()), 0,
                    ks, absl::MakeSpan(guesses_));
  }

  Answers Search(bool together) {
    Scan(absl::MakeSpan(guesses_), together);
    for (const GuessedThreshold& guess : guesses_) failed_ += guess.failed();
    if (failed_ > 0) Scan({}, together);
    Answers answers;
    for (size_t q = 0; q < guesses_.size(); ++q) {
      EXPECT_EQ(accounts_[q].evaluated + accounts_[q].ruled_out,
                world_.LiveRows(0, world_.n()));
      std::vector<std::vector<Neighbor>> lists;
      for (std::vector<TopK>& tops : tops_) {
        lists.push_back(tops[q].TakeSorted());
      }
      answers.push_back(MergeTopK(lists, k_).neighbors);
    }
    return answers;
  }

 private:
  static constexpr size_t kScanners = 3;

  void Scan(absl::Span<GuessedThreshold> guesses, bool together) {
    std::vector<std::unique_ptr<CertifiedScanner>> owned;
    std::vector<CertifiedScanner*> others;
    for (size_t s = 0; s < kScanners; ++s) {
      owned.push_back(std::make_unique<CertifiedScanner>(
          queries_, world_.rows(), absl::MakeSpan(tops_[s]),
          absl::MakeSpan(shared_), nullptr, nullptr, guesses));
      if (s > 0) others.push_back(owned[s].get());
      for (size_t q = 0; guesses.empty() && q < guesses_.size(); ++q) {
        if (!guesses_[q].failed()) owned[s]->Leave(static_cast<int64_t>(q));
      }
    }
    for (int64_t row = 0; row < world_.n(); row += 700) {
      EXPECT_TRUE(owned[static_cast<size_t>(row / 700) % kScanners]->Scan(
          row, std::min(row + 700, world_.n()), Never));
    }
    for (const auto& scanner : owned) scanner->CountWithin();
    for (size_t q = 0; q < guesses.size(); ++q) {
      GuessedThreshold& guess = guesses[q];
      guess.within() >= k_ || shared_[q].value() <= guess.value()
          ? guess.Confirm()
          : guess.Fail();
    }
    if (together) {
      EXPECT_TRUE(owned[0]->FinishWith(others, 0, world_.m(),
                                       absl::MakeSpan(accounts_), Never));
      return;
    }
    for (const auto& scanner : owned) {
      EXPECT_TRUE(scanner->Finish(absl::MakeSpan(accounts_), Never));
    }
  }

  const World& world_;
  const int64_t k_;
  const CertifiedQueries queries_;
  std::vector<SharedThreshold> shared_;
  std::vector<GuessedThreshold> guesses_;
  std::vector<std::vector<TopK>> tops_;
  std::vector<ScanAccount> accounts_;
  int failed_ = 0;
};

TEST(CertifiedScanner, AnyGuessLeavesTheAnswerAsItIs) {
  std::mt19937_64 random(TestSeed());
  int failed = 0;
  for (int round = 0; round < 30; ++round) {
    const char* kinds[] = {"grid", "clusters", "gaussian"};
    const World world(kinds[round % 3], kMetrics[round / 3 % 3], 5000, 7, 5,
                      random() % 2 == 0, random);
    const int64_t k = 1 + static_cast<int64_t>(random() % 300);
    const Answers expected = world.Canonical(0, 5000, k);
    for (const Depth depth : {Depth::kCoarse, Depth::kFine}) {
      Guessed guessed(world, k, depth);
      // Too near, as near as any answer, or too far: the distance of some row.
      for (size_t q = 0; q < expected.size(); ++q) {
        const auto at = static_cast<int64_t>(random() % 400);
        const std::vector<Neighbor> near = world.Canonical(0, 5000, at + 1)[q];
        guessed.guesses()[q].Set(near.back().distance);
      }
      ASSERT_EQ(guessed.Search(round % 2 == 0), expected)
          << kinds[round % 3] << " k=" << k << "; SEED=" << TestSeed();
      failed += guessed.failed();
    }
  }
  // Both ways were taken.
  EXPECT_GT(failed, 20) << "SEED=" << TestSeed();
  EXPECT_LT(failed, 400) << "SEED=" << TestSeed();
}

TEST(CertifiedScanner, GuessesByRowsHoldAndLetPassAFewTimesK) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 6; ++round) {
    const World world("gaussian", kMetrics[round % 3], 40000, 20, 16,
                      round >= 3, random);
    const int64_t k = 200;
    const Answers expected = world.Canonical(0, world.n(), k);
    const Answers wide = world.Canonical(0, world.n(), 6 * k);
    Guessed guessed(world, k, Depth::kCoarse);
    guessed.SetByRows();
    for (size_t q = 0; q < expected.size(); ++q) {
      EXPECT_LT(guessed.guesses()[q].value(), wide[q].back().distance)
          << "SEED=" << TestSeed();
    }
    ASSERT_EQ(guessed.Search(true), expected) << "SEED=" << TestSeed();
    EXPECT_LE(guessed.failed(), 2) << "SEED=" << TestSeed();
  }
}

}  // namespace
}  // namespace coterie
