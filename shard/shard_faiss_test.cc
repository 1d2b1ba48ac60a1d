// Indexes of FAISS through a shard; what they share with others is in
// shard_index_test.cc.

#include <cstdint>
#include <filesystem>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/index_builder.h"
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

// The same points in both shards, so one file's segment is the other's unless
// something else differs.
TEST(ShardFaiss, AForeignFileIsRefusedByNameAndTheIndexBuiltAnew) {
  struct Case {
    const char* end;  // of the file that takes the place of B's
    int32_t dimension;
    const char* factory;
    const char* warning;
  };
  for (const Case& c :
       {Case{".faiss", 5, "IVF8,Flat", "it is of another segment"},
        Case{".lsh", 4, "IVF8,Flat", "it is of another segment"},
        Case{".seg", 4, "IVF8,Flat", "it is no index file"},
        Case{".faiss", 4, "HNSW4",
             "it is HNSW4, and the collection has IVF8,Flat"}}) {
    SCOPED_TRACE(absl::StrCat(c.warning, " SEED=", TestSeed()));
    IndexedShard a(c.dimension, Metric::kSquaredL2,
                   {LshSpec(), FaissSpec(c.factory)});
    IndexedShard b(4, Metric::kSquaredL2, {LshSpec(), FaissSpec("IVF8,Flat")});
    for (IndexedShard* shard : {&a, &b}) {
      ASSERT_NO_FATAL_FAILURE(shard->Open());
      ASSERT_NO_FATAL_FAILURE(shard->WriteRandom(512));
      ASSERT_NO_FATAL_FAILURE(shard->AwaitIndexes());
      ASSERT_NO_FATAL_FAILURE(shard->AwaitFiles());
      shard->harness().Close();
    }
    const std::filesystem::path place = b.Files(".faiss").front();
    std::filesystem::copy_file(
        a.Files(c.end).front(), place,
        std::filesystem::copy_options::overwrite_existing);
    b.harness().Open();
    EXPECT_TRUE(b.Warned(place.filename().string()));
    EXPECT_TRUE(b.Warned(c.warning));
    ASSERT_NO_FATAL_FAILURE(b.AwaitIndexes());
    ASSERT_NO_FATAL_FAILURE(b.AwaitFiles());
    b.ExpectExact(b.Request(7, FaissStrategy{1, 0, 0, 0}));
    b.harness().Reopen();
    EXPECT_EQ(b.State(1).segments_ready, b.State(1).segments);
    const SearchRequest request = b.Request(3, FaissStrategy{0, 8, 0, 40});
    EXPECT_TRUE(absl::StrContains(b.PlanOf(request), "IVF8,Flat, nprobe 8"));
    EXPECT_GT(b.ExpectSound(request), 0.7);
  }
}

// A byte decides, and what is built then keeps to what was said.
TEST(ShardFaiss, AnIndexIsBegunOnlyWithinTheBudget) {
  for (const char* factory : {"HNSW8", "IVF8,Flat", "IVF65536,PQ2x4",
                              "PCA4,HNSW256", "RR4,IVF8,SQ8"}) {
    SCOPED_TRACE(factory);
    const IndexMemory memory =
        ExpectedMemory(FaissSpec(factory), {4, Metric::kSquaredL2}, 512);
    for (const bool enough : {false, true}) {
      IndexedShard shard(4, Metric::kSquaredL2, {FaissSpec(factory)});
      shard.harness().options()->index_bytes =
          memory.building - (enough ? 0 : 1);
      ASSERT_NO_FATAL_FAILURE(shard.Open());
      ASSERT_NO_FATAL_FAILURE(shard.WriteRandom(512));
      if (enough) {
        ASSERT_NO_FATAL_FAILURE(shard.AwaitIndexes());
        EXPECT_LE(shard.State().bytes, memory.kept);
        continue;
      }
      const absl::Time deadline = absl::Now() + absl::Seconds(30);
      while (!absl::StrContains(shard.State().note, "index_bytes allows")) {
        ASSERT_LT(absl::Now(), deadline) << shard.State().note;
        std::this_thread::yield();
      }
      EXPECT_EQ(shard.State().segments_ready, 0);
      shard.ExpectExact(shard.Request(5, FaissStrategy()));
    }
  }
}

}  // namespace
}  // namespace coterie
