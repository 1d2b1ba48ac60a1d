// Indexes of FAISS through a shard; what they share with others is in
// shard_index_test.cc.

#include <thread>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "shard/indexed_shard.h"

namespace coterie {
namespace {

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
