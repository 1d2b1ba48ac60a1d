#include "shard/segment_keeper.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "api/placement.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/crashing_disk.h"
#include "shard/faulty_disk.h"
#include "shard/partition.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kSlots = 5;

using Model = std::map<PointId, std::vector<float>>;

// What a snapshot shows, by walking its segments as a scan does.
Model ContentOf(const CollectionSnapshot& snapshot) {
  Model content;
  for (const auto& view : snapshot.segments()) {
    const ScanRows rows = view->Scannable();
    for (int64_t row = 0; row < rows.rows.n; ++row) {
      if (rows.live != nullptr &&
          (rows.live[row / 64] >> (row % 64) & 1) == 0) {
        continue;
      }
      const VectorView vector = rows.rows.row(row);
      EXPECT_TRUE(content
                      .emplace(rows.ids[row],
                               std::vector<float>(vector.begin(), vector.end()))
                      .second)
          << "two live rows of " << rows.ids[row];
    }
  }
  return content;
}

// A store with its keeper, and what it must hold.
class KeptStore {
 public:
  explicit KeptStore(int64_t tail_rows, int64_t dimension = 2)
      : dimension_(dimension) {
    tuning_.tail_rows = tail_rows;
  }

  Partition* operator->() { return partition_.get(); }
  Partition* get() { return partition_.get(); }
  SegmentKeeper* keeper() { return keeper_.get(); }
  CrashingDisk* disk() { return &disk_; }
  SegmentTuning* tuning() { return &tuning_; }
  const std::vector<std::string>& told() const { return told_; }
  std::string folder() const { return folder_.path() + "/segments"; }
  int64_t adopted() const { return adopted_; }

  absl::StatusOr<std::unique_ptr<Partition>> Load(SegmentDisk* disk) const {
    Partition::Options options;
    options.identity = {"cluster", 0, 1, 0};
    options.path = folder_.path();
    options.tuning = tuning_;
    options.segment_disk = disk;
    options.open_store = store_disk_.Opener();
    return Partition::Open(std::move(options));
  }

  void Open() {
    auto opened = Load(&disk_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    partition_ = *std::move(opened);
    adopted_ += static_cast<int64_t>(
        partition_->manifest_at_start().collections.size());
    keeper_ = std::make_unique<SegmentKeeper>(
        partition_.get(),
        [this](absl::string_view what) { told_.emplace_back(what); });
  }

  void Close() {
    keeper_.reset();
    partition_.reset();
  }

  // Puts a collection there or, if it is there, drops it.
  void Toggle(uint32_t which) {
    Catalogue next = *partition_->catalogue();
    const std::string name = absl::StrCat("c", which);
    const int64_t version = next.version++;
    if (models_.erase(name) > 0) {
      std::erase_if(next.collections,
                    [&](const auto& spec) { return spec.name == name; });
    } else {
      next.collections.push_back(TestCollection(
          name, next.next_number++, static_cast<int32_t>(dimension_),
          Metric::kCosine, kSlots));
      std::sort(next.collections.begin(), next.collections.end(),
                [](const auto& a, const auto& b) { return a.name < b.name; });
      models_[name];
    }
    absl::StatusOr<int64_t> reply = int64_t{0};
    ASSERT_TRUE(partition_->PutCatalogue(version, next, &reply).ok());
    ASSERT_TRUE(reply.ok()) << reply.status();
  }

  const std::map<std::string, Model>& models() const { return models_; }

  void Write(const std::string& name, int64_t points, uint64_t ids,
             Random& random) {
    const auto view = partition_->View(name);
    ASSERT_TRUE(view.ok());
    std::vector<SlotMutations> slots(kSlots);
    for (int32_t i = 0; i < kSlots; ++i) slots[static_cast<size_t>(i)].slot = i;
    // Upserts of a slot come before deletes, so an id is either.
    std::set<PointId> used;
    for (int64_t i = 0; i < points; ++i) {
      const PointId id = SplitMix64(random() % ids);
      if (!used.insert(id).second) continue;
      SlotMutations& slot = slots[static_cast<size_t>(SlotOf(id, kSlots))];
      if (random() % 4 == 0) {
        slot.deletes.push_back(id);
        models_[name].erase(id);
      } else {
        const std::vector<float> vector = RandomVector(dimension_, random);
        slot.upserts.push_back({id, vector, {}});
        models_[name][id] = vector;
      }
    }
    LogEntry entry;
    entry.collection = view->rows->spec().number;
    for (SlotMutations& slot : slots) {
      if (slot.upserts.size() + slot.deletes.size() > 0) {
        entry.slots.push_back(std::move(slot));
      }
    }
    if (entry.slots.empty()) return;
    const LogEntry* const entries[] = {&entry};
    std::vector<absl::StatusOr<WriteReply>> replies(1, WriteReply());
    ASSERT_TRUE(partition_->ApplyGroup(entries, absl::MakeSpan(replies)).ok());
    ASSERT_TRUE(replies[0].ok()) << replies[0].status();
  }

  // Every collection holds what its model says.
  void Check(Partition* partition) const {
    for (const auto& [name, model] : models_) {
      const auto view = partition->View(name);
      ASSERT_TRUE(view.ok()) << view.status();
      EXPECT_EQ(ContentOf(*view->rows), model);
      EXPECT_EQ(view->rows->rows_live(), static_cast<int64_t>(model.size()));
    }
    EXPECT_EQ(partition->catalogue()->collections.size(), models_.size());
  }

  // A start from the store alone and one with the files show the same.
  void CheckRestart() {
    Close();
    std::map<std::string, std::vector<SlotState>> slots;
    {
      // Without its files nothing is found, so all is read from the store.
      const bool files = fs::exists(folder());
      if (files) fs::rename(folder(), folder() + ".aside");
      const auto plain = Load(nullptr);
      ASSERT_TRUE(plain.ok()) << plain.status();
      EXPECT_TRUE((*plain)->manifest_at_start().collections.empty());
      Check(plain->get());
      for (const auto& [name, model] : models_) {
        slots[name] = (*plain)->View(name)->rows->slots();
      }
      if (files) fs::rename(folder() + ".aside", folder());
    }
    Open();
    EXPECT_TRUE(partition_->warnings().empty()) << partition_->warnings()[0];
    Check(partition_.get());
    for (const auto& [name, model] : models_) {
      const auto& found = partition_->View(name)->rows->slots();
      ASSERT_EQ(found.size(), slots[name].size());
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].offset, slots[name][i].offset);
        EXPECT_EQ(found[i].rows, slots[name][i].rows);
        EXPECT_EQ(found[i].id_checksum, slots[name][i].id_checksum);
      }
    }
  }

 private:
  const int64_t dimension_;
  TempFolder folder_;
  SegmentTuning tuning_;
  CrashingDisk disk_;
  mutable FaultyDisk store_disk_;  // of which nothing is lost here
  std::unique_ptr<Partition> partition_;
  std::unique_ptr<SegmentKeeper> keeper_;
  std::vector<std::string> told_;
  std::map<std::string, Model> models_;
  int64_t adopted_ = 0;
};

class SegmentKeeperTest : public ::testing::Test {
 protected:
  SegmentKeeperTest() : seed_(TestSeed()), random_(seed_) {}

  void WriteSome(KeptStore* store) {
    for (const auto& [name, model] : store->models()) {
      store->Write(name, 1 + static_cast<int64_t>(random_() % 20), 80, random_);
    }
  }

  // Works until a crash somewhere between two changes of the disk, perhaps
  // with its power gone, then starts again.
  void Crash(KeptStore* store) {
    store->disk()->CrashAfter(1 + static_cast<int64_t>(random_() % 25));
    store->keeper()->WorkNow();
    store->Close();
    if (random_() % 2 == 0) store->disk()->LosePower();
    store->disk()->CrashAfter(-1);
    store->CheckRestart();
  }

  const uint64_t seed_;
  Random random_;
};

TEST_F(SegmentKeeperTest, AStartWithFilesEqualsAStartFromTheStore) {
  SCOPED_TRACE(absl::StrCat("SEED=", seed_));
  int64_t adopted = 0;
  const char* const rounds = std::getenv("ROUNDS");
  for (int round = 0;
       round < (rounds != nullptr ? std::atoi(rounds) : 4) && !HasFailure();
       ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    KeptStore store(1 + static_cast<int64_t>(random_() % 40));
    store.Open();
    store.Toggle(0);
    for (int step = 0; step < 60 && !HasFailure(); ++step) {
      switch (random_() % 16) {
        case 0:
          store.Toggle(static_cast<uint32_t>(random_() % 3));
          break;
        case 1:
          store.CheckRestart();
          break;
        case 2:
          Crash(&store);
          break;
        case 3:
        case 4:
        case 5:
          store.keeper()->WorkNow();
          store.Check(store.get());
          break;
        default:
          WriteSome(&store);
      }
    }
    adopted += store.adopted();
  }
  EXPECT_GT(adopted, 20) << "files were hardly ever used";
}

TEST_F(SegmentKeeperTest, ACrashBetweenAnyTwoChangesCostsNothing) {
  SCOPED_TRACE(absl::StrCat("SEED=", seed_));
  for (int64_t changes = 1;; ++changes) {
    SCOPED_TRACE(absl::StrCat("crash at change ", changes));
    KeptStore store(10);
    store.Open();
    store.Toggle(0);
    for (int i = 0; i < 3; ++i) WriteSome(&store);
    store.keeper()->WorkNow();
    for (int i = 0; i < 3; ++i) WriteSome(&store);
    store.disk()->CrashAfter(changes);
    store.keeper()->WorkNow();
    const bool crashed = store.disk()->crashed();
    store.Close();
    if (changes % 2 == 0) store.disk()->LosePower();
    store.disk()->CrashAfter(-1);
    store.CheckRestart();
    if (!crashed || HasFailure()) break;
    ASSERT_LT(changes, 200);
  }
}

TEST_F(SegmentKeeperTest, KeepsCodesAcrossAStart) {
  KeptStore store(1100, /*dimension=*/16);
  store.Open();
  store.Toggle(0);
  store.Write("c0", 6000, uint64_t{1} << 40, random_);
  store.keeper()->WorkNow();
  store.CheckRestart();
  int64_t coded = 0;
  for (const auto& view : store->View("c0")->rows->segments()) {
    coded += view->segment()->codes() != nullptr ? view->live() : 0;
    EXPECT_TRUE(view->segment()->file() != nullptr ||
                !view->segment()->sealed());
  }
  EXPECT_GT(coded, 3000);
}

TEST_F(SegmentKeeperTest, KeepsABoundedLogOfEachSlot) {
  KeptStore store(8);
  store.Open();
  store.Toggle(0);
  for (int i = 0; i < 60; ++i) store.Write("c0", 5, 40, random_);
  store.keeper()->WorkNow();
  const auto view = store->View("c0");
  for (const SlotState& slot : view->rows->slots()) {
    const auto cursor =
        store->store()->Walk(Family::kLog, SlotStart(1, slot.slot),
                             SlotStart(1, slot.slot + 1), nullptr);
    std::vector<int64_t> offsets;
    for (; cursor->Valid(); cursor->Next()) {
      offsets.push_back(static_cast<int64_t>(DecodeKey(cursor->key())->id));
    }
    ASSERT_FALSE(offsets.empty());
    EXPECT_EQ(offsets.back(), slot.offset);
    EXPECT_LE(offsets.front(), slot.offset - 15) << "at least 16";
    EXPECT_GE(offsets.front(), slot.offset - 15 - 8) << "and of the tail";
  }
}

TEST_F(SegmentKeeperTest, RemovesFilesThatNothingNames) {
  KeptStore store(4);
  store.Open();
  store.Toggle(0);
  store.Toggle(1);
  for (int i = 0; i < 10; ++i) WriteSome(&store);
  store.keeper()->WorkNow();
  const auto names = [&] {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(store.folder())) {
      found.insert(entry.path().filename().string());
    }
    return found;
  };
  const auto before = names();
  EXPECT_EQ(static_cast<int64_t>(before.size()), store.keeper()->files() + 1)
      << "the manifest, and the segments that it names";
  // A reader that holds the dropped collection still reads it.
  const auto held = store->View("c1")->rows;
  const Model then = ContentOf(*held);
  ASSERT_GT(then.size(), 0u);
  store.Toggle(1);
  store.keeper()->WorkNow();
  EXPECT_LT(names().size(), before.size());
  EXPECT_EQ(static_cast<int64_t>(names().size()), store.keeper()->files() + 1);
  EXPECT_EQ(ContentOf(*held), then);
  // What a crash left behind goes at the next start.
  store.Close();
  for (const char* stray : {"0000000001.seg.tmp", "0000000777.seg",
                            "0000000778.manifest", "anything"}) {
    fs::copy_file(store.folder() + "/" + *names().begin(),
                  store.folder() + "/" + stray);
  }
  store.Open();
  EXPECT_TRUE(store->warnings().empty());
  store.keeper()->WorkNow();
  EXPECT_EQ(static_cast<int64_t>(names().size()), store.keeper()->files() + 1);
}

TEST_F(SegmentKeeperTest, AFullDiskLeavesRowsInMemoryAndIsReported) {
  KeptStore store(10);
  store.Open();
  store.Toggle(0);
  store.disk()->SetFull(true);
  for (int i = 0; i < 6; ++i) {
    WriteSome(&store);
    store.keeper()->WorkNow();
  }
  store.Check(store.get());
  EXPECT_GE(store.keeper()->failures(), 1);
  EXPECT_EQ(store.keeper()->files(), 0);
  EXPECT_TRUE(absl::StrContains(store.keeper()->trouble(), store.folder()))
      << store.keeper()->trouble();
  ASSERT_GE(store.told().size(), 1u);
  EXPECT_TRUE(absl::StrContains(store.told()[0], "stay in memory"));
  bool sealed = false;
  for (const auto& view : store->View("c0")->rows->segments()) {
    sealed = sealed || view->segment()->sealed();
  }
  EXPECT_TRUE(sealed) << "merged in memory";
  // With room again they go to files.
  store.disk()->SetFull(false);
  store.keeper()->WorkNow();
  EXPECT_EQ(store.keeper()->trouble(), "");
  EXPECT_GT(store.keeper()->files(), 0);
  for (const auto& view : store->View("c0")->rows->segments()) {
    EXPECT_EQ(view->segment()->sealed(), view->segment()->file() != nullptr);
  }
  store.CheckRestart();
}

TEST_F(SegmentKeeperTest, ASnapshotShowsTheSameWhateverIsMerged) {
  SCOPED_TRACE(absl::StrCat("SEED=", seed_));
  KeptStore store(7);
  store.Open();
  store.Toggle(0);
  std::vector<std::pair<std::shared_ptr<const CollectionSnapshot>, Model>> held;
  for (int i = 0; i < 40; ++i) {
    WriteSome(&store);
    held.emplace_back(store->View("c0")->rows, store.models().at("c0"));
    store.keeper()->WorkNow();
    held.emplace_back(store->View("c0")->rows, store.models().at("c0"));
  }
  for (const auto& [snapshot, model] : held) {
    ASSERT_EQ(ContentOf(*snapshot), model);
  }
}

}  // namespace
}  // namespace coterie
