#include "shard/collection_state.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/placement.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/shard_testing.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

using Model = std::map<PointId, std::vector<float>>;

CollectionSpec Spec(int32_t dimension = 2) {
  return TestCollection("c", 1, dimension, Metric::kSquaredL2, 7);
}

// What a snapshot shows, by walking its segments as a scan does.
Model ContentOf(const CollectionSnapshot& snapshot) {
  Model content;
  for (const auto& view : snapshot.segments()) {
    const ScanRows rows = view->Scannable();
    int64_t live = 0;
    for (int64_t row = 0; row < rows.rows.n; ++row) {
      if (rows.live != nullptr &&
          (rows.live[row / 64] >> (row % 64) & 1) == 0) {
        continue;
      }
      ++live;
      const VectorView vector = rows.rows.row(row);
      const bool is_new =
          content
              .emplace(rows.ids[row],
                       std::vector<float>(vector.begin(), vector.end()))
              .second;
      EXPECT_TRUE(is_new) << "two live rows of " << rows.ids[row];
    }
    EXPECT_EQ(live, view->live());
  }
  return content;
}

void ExpectShows(const CollectionSnapshot& snapshot, const Model& model) {
  EXPECT_EQ(ContentOf(snapshot), model);
  EXPECT_EQ(snapshot.rows_live(), static_cast<int64_t>(model.size()));
  std::vector<SlotState> slots(7);
  for (const auto& [id, vector] : model) {
    const auto found = snapshot.Find(id);
    ASSERT_TRUE(found.has_value()) << id;
    EXPECT_EQ(std::vector<float>(found->begin(), found->end()), vector);
    SlotState& slot = slots[static_cast<size_t>(SlotOf(id, 7))];
    ++slot.rows;
    slot.id_checksum += SplitMix64(id);
  }
  ASSERT_EQ(snapshot.slots().size(), 7u);
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(snapshot.slots()[i].slot, static_cast<int32_t>(i));
    EXPECT_EQ(snapshot.slots()[i].rows, slots[i].rows) << i;
    EXPECT_EQ(snapshot.slots()[i].id_checksum, slots[i].id_checksum) << i;
  }
}

TEST(CollectionState, EqualsAMapAtEverySnapshot) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  for (int round = 0; round < 30; ++round) {
    SegmentTuning tuning;
    tuning.tail_rows = 1 + static_cast<int64_t>(random() % 20);
    tuning.segment_bytes = static_cast<int64_t>(random() % 3000);
    CollectionState state(Spec(), 0, tuning);
    Model model;
    std::vector<std::pair<std::shared_ptr<const CollectionSnapshot>, Model>>
        held;
    const uint64_t ids = 1 + random() % 60;
    for (int64_t sequence = 1; sequence <= 150; ++sequence) {
      const PointId id = SplitMix64(random() % ids);
      if (random() % 3 == 0) {
        ASSERT_EQ(state.Delete(id, sequence), model.erase(id) == 1);
      } else {
        const std::vector<float> vector = RandomVector(2, random);
        ASSERT_EQ(state.Upsert(id, vector, sequence), model.count(id) == 1);
        model[id] = vector;
      }
      if (random() % 3 == 0) state.Maintain();
      if (random() % 4 == 0) held.emplace_back(state.Publish(sequence), model);
    }
    // All at the end: later writes must not have changed what they show.
    for (const auto& [snapshot, then] : held) ExpectShows(*snapshot, then);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "round " << round;
  }
}

TEST(CollectionState, LoadGivesWhatUpsertsGive) {
  SegmentTuning tuning;
  tuning.segment_bytes = 700 * 24;  // several segments
  CollectionState state(Spec(), 0, tuning);
  Model model;
  state.StartLoad(3);  // far too few: only a hint
  for (uint64_t i = 0; i < 3000; ++i) {
    const PointId id = SplitMix64(i);
    model[id] = {static_cast<float>(i), 1};
    state.Load(id, model[id]);
  }
  state.FinishLoad();
  const auto snapshot = state.Publish(5);
  EXPECT_GE(snapshot->segments().size(), 3u);
  ExpectShows(*snapshot, model);
  EXPECT_TRUE(state.Upsert(SplitMix64(0), VectorView({8, 8}), 6));
  model[SplitMix64(0)] = {8, 8};
  ExpectShows(*state.Publish(6), model);
}

TEST(CollectionState, MergingKeepsSegmentsFew) {
  SegmentTuning tuning;
  tuning.tail_rows = 4;
  CollectionState state(Spec(), 0, tuning);
  for (PointId id = 0; id < 4000; ++id) {
    state.Upsert(id, VectorView({1, 1}), static_cast<int64_t>(id) + 1);
    state.Maintain();
  }
  // 1000 tails: logarithmic, not linear.
  EXPECT_LE(state.Publish(4000)->segments().size(), 12u);
}

TEST(CollectionState, RewritesSegmentsThatAreAFifthDead) {
  SegmentTuning tuning;
  tuning.tail_rows = 100;
  CollectionState state(Spec(), 0, tuning);
  for (PointId id = 0; id < 101; ++id) state.Upsert(id, VectorView({1, 1}), 1);
  state.Maintain();
  for (PointId id = 0; id < 20; ++id) state.Delete(id, 2);
  state.Maintain();
  EXPECT_EQ(state.Publish(2)->segments()[0]->rows(), 100) << "just a fifth";
  state.Delete(20, 3);
  state.Maintain();
  const auto after = state.Publish(3);
  EXPECT_EQ(after->segments()[0]->rows(), 79);
  EXPECT_EQ(after->segments()[0]->live(), 79);
}

// Merges as another thread does them: with writes between their steps.
TEST(CollectionState, EqualsAMapWhateverIsWrittenDuringAMerge) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  for (int round = 0; round < 30; ++round) {
    SegmentTuning tuning;
    tuning.tail_rows = 1 + static_cast<int64_t>(random() % 20);
    CollectionState state(Spec(), 0, tuning);
    Model model;
    int64_t sequence = 0;
    const uint64_t ids = 1 + random() % 60;
    const auto write_some = [&] {
      for (uint64_t n = random() % 30; n > 0; --n) {
        const PointId id = SplitMix64(random() % ids);
        ++sequence;
        if (random() % 3 == 0) {
          ASSERT_EQ(state.Delete(id, sequence), model.erase(id) == 1);
        } else {
          const std::vector<float> vector = RandomVector(2, random);
          ASSERT_EQ(state.Upsert(id, vector, sequence), model.count(id) == 1);
          model[id] = vector;
        }
      }
    };
    std::vector<std::pair<std::shared_ptr<const CollectionSnapshot>, Model>>
        held;
    for (int merge = 0; merge < 40; ++merge) {
      write_some();
      const auto inputs = state.StartMerge(/*files=*/false);
      if (inputs.empty()) continue;
      EXPECT_TRUE(state.StartMerge(false).empty()) << "one at a time";
      write_some();
      const auto merged = Segment::Seal({2, Metric::kSquaredL2}, inputs);
      write_some();
      if (random() % 8 == 0) {
        state.AbandonMerge();
      } else {
        for (const auto& death : state.TakeChanges().deaths) {
          if (merged != nullptr) merged->MarkIfLive(death.id, death.sequence);
        }
        write_some();
        held.emplace_back(state.Publish(sequence), model);
        state.FinishMerge(merged);
      }
      held.emplace_back(state.Publish(sequence), model);
    }
    for (const auto& [snapshot, then] : held) ExpectShows(*snapshot, then);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "round " << round;
  }
}

TEST(CollectionState, CoversWhatSealedSegmentsHold) {
  SegmentTuning tuning;
  tuning.tail_rows = 10;
  CollectionState state(Spec(), 0, tuning);
  const auto write = [&](PointId id) {
    state.Upsert(id, VectorView({1, 1}), 1);
    state.AdvanceOffset(SlotOf(id, 7));
  };
  for (PointId id = 0; id < 10; ++id) write(id);
  EXPECT_TRUE(state.coverage().segments.empty());
  EXPECT_EQ(state.coverage().offsets, std::vector<int64_t>(7));
  state.Maintain();
  ASSERT_EQ(state.coverage().segments.size(), 1u);
  std::vector<int64_t> offsets(7);
  for (PointId id = 0; id < 10; ++id) {
    ++offsets[static_cast<size_t>(SlotOf(id, 7))];
  }
  EXPECT_EQ(state.coverage().offsets, offsets);
  for (PointId id = 10; id < 15; ++id) write(id);
  state.Maintain();
  EXPECT_EQ(state.coverage().offsets, offsets) << "the tail is not sealed";
  // Changes that fill no tail count, too.
  state.AdvanceOffset(0, 5);
  EXPECT_TRUE(state.WantsMerge(false));
  state.Maintain();
  ASSERT_EQ(state.coverage().segments.size(), 1u) << "merged";
  EXPECT_EQ(state.coverage().segments[0]->size(), 15);
  EXPECT_EQ(state.coverage().offsets[0], state.slot(0).offset);
  EXPECT_FALSE(state.WantsMerge(false));
}

TEST(CollectionState, MergesNothingThatTheBudgetDoesNotAllow) {
  SegmentTuning tuning;
  tuning.tail_rows = 10;
  tuning.merge_bytes = 15 * static_cast<int64_t>(sizeof(SegmentRow));
  CollectionState state(Spec(), 0, tuning);
  for (PointId id = 0; id < 40; ++id) {
    state.Upsert(id, VectorView({1, 1}), 1);
    state.Maintain();
  }
  EXPECT_EQ(state.coverage().segments.size(), 3u) << "merged, two have 20 rows";
}

TEST(CollectionState, SegmentsDisappearWithTheirLastRow) {
  SegmentTuning tuning;
  tuning.tail_rows = 2;
  CollectionState state(Spec(), 0, tuning);
  for (PointId id = 0; id < 3; ++id) state.Upsert(id, VectorView({1, 1}), 1);
  for (PointId id = 0; id < 3; ++id) state.Delete(id, 2);
  state.Maintain();
  const auto snapshot = state.Publish(2);
  EXPECT_EQ(snapshot->rows_live(), 0);
  EXPECT_EQ(snapshot->segments().size(), 1u) << "the tail's dead row only";
}

TEST(CollectionState, OneIdManyTimesTakesNoMoreMemoryThanATail) {
  SegmentTuning tuning;
  tuning.tail_rows = 8;
  CollectionState state(Spec(), 0, tuning);
  for (int64_t sequence = 1; sequence <= 1000; ++sequence) {
    state.Upsert(3, VectorView({1, 1}), sequence);
    state.Maintain();
  }
  const auto snapshot = state.Publish(1000);
  int64_t rows = 0;
  for (const auto& view : snapshot->segments()) rows += view->rows();
  EXPECT_LE(rows, 9);
  EXPECT_EQ(snapshot->rows_live(), 1);
}

TEST(CollectionState, TakesNoMemoryBeforeTheFirstRow) {
  CollectionState state(Spec(16384), 0, {});
  EXPECT_TRUE(state.Publish(0)->segments().empty());
  EXPECT_LT(state.Publish(0)->MemoryBytes(), 1000);
}

TEST(CollectionState, KeepsBitmapsOfSegmentsThatDidNotChange) {
  SegmentTuning tuning;
  tuning.tail_rows = 4;
  CollectionState state(Spec(), 0, tuning);
  for (PointId id = 0; id < 5; ++id) state.Upsert(id, VectorView({1, 1}), 1);
  const auto first = state.Publish(1);
  state.Upsert(9, VectorView({1, 1}), 2);
  const auto second = state.Publish(2);
  EXPECT_EQ(first->segments()[0], second->segments()[0]);
  EXPECT_NE(first->segments()[1], second->segments()[1]);
}

TEST(CollectionState, ListsOnlyOwnedSlots) {
  CollectionSpec spec = Spec();
  spec.owner = {0, 1, 0, 1, 1, 1, 0};
  CollectionState state(spec, 1, {});
  EXPECT_TRUE(state.Owns(1));
  EXPECT_FALSE(state.Owns(2));
  EXPECT_EQ(state.AdvanceOffset(3), 1);
  EXPECT_EQ(state.AdvanceOffset(3), 2);
  const auto snapshot = state.Publish(1);
  ASSERT_EQ(snapshot->slots().size(), 4u);
  EXPECT_EQ(snapshot->slots()[1].slot, 3);
  EXPECT_EQ(snapshot->slots()[1].offset, 2);
  spec.owner.assign(7, 1);
  state.SetSpec(spec);
  EXPECT_EQ(state.Publish(1)->slots().size(), 7u);
}

// For ThreadSanitizer, and for isolation: each write keeps the sum of all
// first components at zero, so every snapshot must show that sum.
TEST(CollectionState, ReadersSeeWholeWritesWhileTheWriterWorks) {
  constexpr int64_t kWrites = 1500;
  SegmentTuning tuning;
  tuning.tail_rows = 64;
  CollectionState state(Spec(), 0, tuning);
  Mutex mutex;
  std::shared_ptr<const CollectionSnapshot> visible = state.Publish(0);
  std::atomic<bool> finished{false};
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&] {
      while (!finished.load()) {
        std::shared_ptr<const CollectionSnapshot> snapshot;
        {
          MutexLock lock(&mutex);
          snapshot = visible;
        }
        double sum = 0;
        int64_t rows = 0;
        for (const auto& [id, vector] : ContentOf(*snapshot)) {
          sum += vector[0];
          ++rows;
        }
        if (sum != 0 || rows != snapshot->rows_live()) ++wrong;
        for (PointId id = 0; id < 40; id += 2) {
          const auto a = snapshot->Find(id);
          const auto b = snapshot->Find(id + 1);
          if (a.has_value() != b.has_value()) ++wrong;
          if (a.has_value() && (*a)[0] != -(*b)[0]) ++wrong;
        }
      }
    });
  }
  Random random(TestSeed());
  for (int64_t sequence = 1; sequence <= kWrites; ++sequence) {
    const PointId pair = random() % 20 * 2;
    const auto x = static_cast<float>(random() % 100);
    if (random() % 4 == 0) {
      state.Delete(pair, sequence);
      state.Delete(pair + 1, sequence);
    } else {
      state.Upsert(pair, VectorView({x, 0}), sequence);
      state.Upsert(pair + 1, VectorView({-x, 0}), sequence);
    }
    state.Maintain();
    auto snapshot = state.Publish(sequence);
    MutexLock lock(&mutex);
    visible.swap(snapshot);
  }
  finished.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace coterie
