// Indexes of FAISS through a shard; what they share with others is in
// shard_index_test.cc.

#include <thread>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/indexed_shard.h"

namespace coterie {
namespace {

TEST(ShardFaiss, EveryFaissKindIsBuiltSearchedAndReadAgain) {
  for (const char* factory : {"HNSW16", "HNSW8,SQ8", "IVF16,Flat", "IVF16,SQ6",
                              "IVF16,PQ5x4", "PCA10,IVF16,Flat"}) {
    SCOPED_TRACE(absl::StrCat(factory, " SEED=", TestSeed()));
    IndexedShard shard(20, Metric::kSquaredL2, {FaissSpec(factory)});
    ASSERT_NO_FATAL_FAILURE(shard.Open());
    ASSERT_NO_FATAL_FAILURE(shard.WriteRandom(2560));
    ASSERT_NO_FATAL_FAILURE(shard.AwaitIndexes());
    // By the effort that is of the kind.
    const bool graph = absl::StartsWith(factory, "HNSW");
    const FaissStrategy wide =
        graph ? FaissStrategy{0, 0, 400, 400} : FaissStrategy{0, 16, 0, 400};
    const FaissStrategy other =
        graph ? FaissStrategy{0, 1, 0, 0} : FaissStrategy{0, 0, 1, 0};
    for (int round = 0; round < 2; ++round) {
      EXPECT_GT(shard.ExpectSound(shard.Request(10, wide)), 0.7);
      shard.ExpectSound(shard.Request(10, FaissStrategy{0.8, 0, 0, 0}));
      EXPECT_TRUE(absl::IsFailedPrecondition(
          shard.harness().Search(shard.Request(1, other)).status()));
      ASSERT_NO_FATAL_FAILURE(shard.AwaitFiles());
      shard.harness().Reopen();
      EXPECT_EQ(shard.State().segments_ready, shard.State().segments);
    }
  }
}

TEST(ShardFaiss, RowsTooFewForAFactoryStringAreScannedAndTheNoteSaysSo) {
  IndexedShard shard(4, Metric::kSquaredL2, {FaissSpec("IVF4,PQ2")});
  shard.harness().options()->tail_rows = 128;
  ASSERT_NO_FATAL_FAILURE(shard.Open());
  ASSERT_NO_FATAL_FAILURE(shard.WriteRandom(140));
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (!absl::StrContains(shard.State().note, "trained on 256 rows")) {
    ASSERT_LT(absl::Now(), deadline) << shard.State().note;
    std::this_thread::yield();
  }
  EXPECT_EQ(shard.State().segments_ready, 0);
  shard.ExpectExact(shard.Request(5, FaissStrategy()));
}

}  // namespace
}  // namespace coterie
