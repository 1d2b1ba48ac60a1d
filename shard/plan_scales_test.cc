#include "shard/plan_scales.h"

#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "gtest/gtest.h"
#include "index/certified_codes.h"
#include "index/distance.h"
#include "index/faiss_factory.h"
#include "index/faiss_index.h"
#include "index/lsh.h"
#include "index/metric.h"
#include "index/planner.h"
#include "index/test_vectors.h"
#include "index/tree.h"
#include "shard/machine_rates.h"

namespace coterie {
namespace {

bool Never() { return false; }

void OneByOne(int64_t count, absl::FunctionRef<void(int64_t)> task) {
  for (int64_t i = 0; i < count; ++i) task(i);
}

// Rows around a few hundred centres, with every structure over them.
class Data {
 public:
  Data(int64_t n, int64_t d) {
    std::mt19937_64 random(TestSeed());
    const TestVectors centres =
        MakeTestVectors("gaussian", 300, 0, d, false, random);
    TestVectors made = MakeTestVectors("gaussian", n, 0, d, false, random);
    for (int64_t i = 0; i < n; ++i) {
      const VectorView centre = centres.rows_view().row(i % 300);
      for (int64_t j = 0; j < d; ++j) {
        float& x = made.rows[static_cast<size_t>(i * d + j)];
        x = x / 2 + centre[static_cast<size_t>(j)];
      }
    }
    std::vector<int64_t> order;
    Tree built =
        Tree::Build(Metric::kSquaredL2, made.rows_view(), OneByOne, &order);
    for (const int64_t i : order) {
      const VectorView row = made.rows_view().row(i);
      data_.insert(data_.end(), row.begin(), row.end());
      norms_.push_back(CanonicalSquaredNorm(row));
      ids_.push_back(static_cast<PointId>(i));
    }
    timed_.rows = {
        {data_.data(), n, d, d}, ids_.data(), norms_.data(), nullptr};
    codes_ =
        std::make_unique<CertifiedCodes>(Metric::kSquaredL2, timed_.rows.rows);
    timed_.codes = codes_.get();
    built.Train(timed_.rows, codes_.get(), OneByOne);
    tree_ = std::make_unique<Tree>(std::move(built));
    timed_.tree = tree_.get();
  }

  void AddOthers() {
    lsh_ = std::make_unique<LshIndex>(
        LshIndex::Build(Metric::kSquaredL2, timed_.rows.rows, {}, OneByOne));
    lsh_->Train(timed_.rows, *codes_, OneByOne);
    auto faiss = FaissIndex::Build(Metric::kSquaredL2, timed_.rows,
                                   *FaissFactory::Parse("IVF64,Flat"), Never);
    ASSERT_TRUE(faiss.ok()) << faiss.status();
    faiss_ = std::make_unique<FaissIndex>(*std::move(faiss));
    timed_.lsh = lsh_.get();
    timed_.faiss = faiss_.get();
  }

  TimedSegment& timed() { return timed_; }

 private:
  std::vector<float> data_;
  std::vector<PointId> ids_;
  std::vector<double> norms_;
  std::unique_ptr<CertifiedCodes> codes_;
  std::unique_ptr<Tree> tree_;
  std::unique_ptr<LshIndex> lsh_;
  std::unique_ptr<FaissIndex> faiss_;
  TimedSegment timed_;
};

void ExpectSane(double scale) {
  EXPECT_GE(scale, 1.0 / 64);
  EXPECT_LE(scale, 64);
}

TEST(MeasureScales, TimesWhatThereIs) {
  Data data(6000, 24);
  ASSERT_NO_FATAL_FAILURE(data.AddOthers());
  const PlanScales scales = MeasureScales(data.timed(), MachineRates());
  std::cout << "measured over predicted: scan " << scales.scan << ", tree "
            << scales.tree << ", lsh " << scales.lsh << ", faiss "
            << scales.faiss << '\n';
  for (const double scale :
       {scales.scan, scales.tree, scales.lsh, scales.faiss}) {
    ExpectSane(scale);
  }
  // A machine that is said to be ten thousand times slower is found out.
  SearchRates slow = MachineRates();
  slow.code_byte *= 1e4;
  slow.code_byte_batch *= 1e4;
  EXPECT_EQ(MeasureScales(data.timed(), slow).scan, 1.0 / 64);
}

TEST(MeasureScales, LeavesWhatIsNotThereAtOne) {
  Data data(3000, 3);
  // As the rows of few dimensions may be: without codes.
  data.timed().codes = nullptr;
  const PlanScales scales = MeasureScales(data.timed(), MachineRates());
  ExpectSane(scales.scan);
  ExpectSane(scales.tree);
  EXPECT_NE(scales.tree, 1) << "it was not timed";
  EXPECT_EQ(scales.lsh, 1);
  EXPECT_EQ(scales.faiss, 1);
  TimedSegment empty;
  EXPECT_EQ(MeasureScales(empty, MachineRates()).scan, 1);
}

}  // namespace
}  // namespace coterie
