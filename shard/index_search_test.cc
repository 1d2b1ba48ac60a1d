#include "shard/index_search.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "index/lsh.h"
#include "index/test_vectors.h"
#include "shard/machine_rates.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

constexpr int32_t kDimension = 5;

// Sealed segments with hashes, and a tail.
std::shared_ptr<const CollectionSnapshot> Hashed(Metric metric,
                                                 Random& random) {
  SegmentTuning tuning;
  tuning.tail_rows = 300;
  CollectionState state(TestCollection("c", 1, kDimension, metric, 5), 0,
                        tuning);
  for (int64_t sequence = 1; sequence <= 1250; ++sequence) {
    state.Upsert(random(), RandomVector(kDimension, random), sequence);
    if (sequence % 100 == 0) state.Maintain();
  }
  auto snapshot = state.Publish(1250);
  for (const auto& view : snapshot->segments()) {
    const Segment& segment = *view->segment();
    if (!segment.sealed()) continue;
    auto index = std::make_shared<SegmentIndex>(LshIndex::Build(
        metric, segment.rows(segment.size()), {},
        [](int64_t count, absl::FunctionRef<void(int64_t)> task) {
          for (int64_t i = 0; i < count; ++i) task(i);
        }));
    index->MakeCodes(segment.rows(segment.size()), segment.codes());
    segment.indexes().Set(std::move(index));
  }
  return snapshot;
}

class IndexSearchOf : public ::testing::TestWithParam<Metric> {};

INSTANTIATE_TEST_SUITE_P(Metrics, IndexSearchOf,
                         ::testing::Values(Metric::kSquaredL2,
                                           Metric::kInnerProduct,
                                           Metric::kCosine));

TEST_P(IndexSearchOf, EndsWithItsCall) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  const auto snapshot = Hashed(GetParam(), random);
  const std::vector<float> query = RandomVector(kDimension, random);
  const ScanQueries queries(GetParam(),
                            {query.data(), 1, kDimension, kDimension});
  SearchPass::Part part;
  part.count = 1;
  part.keep = 3;
  part.radius = std::numeric_limits<double>::infinity();
  const auto search = [&] {
    return std::make_unique<IndexSearch>(*snapshot, queries,
                                         LshStrategy{0.8, 0}, part);
  };
  WorkQueue queue(3, 10);
  auto live = search();
  EXPECT_TRUE(live->Run(&queue).ok());
  EXPECT_FALSE(live->TakeNeighbors(0).empty());
  EXPECT_LT(live->rest().size(), snapshot->segments().size());
  auto cancel = std::make_shared<CancelToken>();
  part.call.cancel = cancel;
  auto ended = search();
  cancel->Cancel();
  EXPECT_TRUE(absl::IsCancelled(ended->Run(&queue)));
}

TEST(MachineRates, ArePositive) {
  const SearchRates& rates = MachineRates();
  EXPECT_GT(rates.code_byte, 0);
  EXPECT_GT(rates.code_byte_batch, 0);
  EXPECT_GT(rates.float_byte, 0);
  EXPECT_GT(rates.faiss_component, 0);
  EXPECT_LT(rates.faiss_component, 1e-3) << "it was not measured";
  EXPECT_EQ(&MachineRates(), &rates) << "measured once";
}

}  // namespace
}  // namespace coterie
