#include "shard/partition.h"

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "api/placement.h"
#include "gtest/gtest.h"
#include "shard/log_codec.h"
#include "shard/record_codec.h"
#include "shard/record_store.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

constexpr int32_t kSlots = 8;

Partition::Options Options(const std::string& path) {
  Partition::Options options;
  options.identity = {"cluster", 0, 2, 0};
  options.path = path;
  return options;
}

CollectionSpec Words(uint32_t number = 1) {
  return TestCollection("words", number, 2, Metric::kCosine, kSlots);
}

std::unique_ptr<Partition> OpenOrDie(const Partition::Options& options) {
  auto partition = Partition::Open(options);
  EXPECT_TRUE(partition.ok()) << partition.status();
  return std::move(*partition);
}

absl::StatusOr<int64_t> Put(Partition* partition, int64_t expected,
                            const Catalogue& next) {
  absl::StatusOr<int64_t> reply = int64_t{-1};
  const absl::Status failure = partition->PutCatalogue(expected, next, &reply);
  EXPECT_TRUE(failure.ok()) << failure;
  return reply;
}

LogEntry Upsert(uint32_t collection, const std::vector<PointId>& ids) {
  LogEntry entry;
  entry.collection = collection;
  for (const PointId id : ids) {
    Point point{id, {1, static_cast<float>(id % 100)}, {{"id", "x"}}};
    entry.slots.push_back({SlotOf(id, kSlots), {std::move(point)}, {}});
  }
  return entry;
}

absl::StatusOr<WriteReply> Apply(Partition* partition, const LogEntry& entry) {
  const LogEntry* const entries[] = {&entry};
  absl::StatusOr<WriteReply> replies[] = {WriteReply()};
  const absl::Status failure =
      partition->ApplyGroup(entries, absl::MakeSpan(replies));
  EXPECT_TRUE(failure.ok()) << failure;
  return replies[0];
}

// --- Identity ---------------------------------------------------------------

TEST(Partition, CountsItsOpenings) {
  const TempFolder folder;
  EXPECT_EQ(OpenOrDie(Options(folder.path()))->identity().incarnation, 1);
  EXPECT_EQ(OpenOrDie(Options(folder.path()))->identity().incarnation, 2);
}

TEST(Partition, RefusesTheFolderOfAnotherShardNamingBoth) {
  const TempFolder folder;
  OpenOrDie(Options(folder.path()));
  std::vector<ShardIdentity> others = {
      {"other", 0, 2, 0}, {"cluster", 1, 2, 0}, {"cluster", 0, 3, 0}};
  for (const ShardIdentity& other : others) {
    Partition::Options options = Options(folder.path());
    options.identity = other;
    const absl::Status status = Partition::Open(options).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(),
                                  "shard 0 of 2 of cluster 'cluster'"))
        << status;
    EXPECT_TRUE(absl::StrContains(
        status.message(),
        absl::StrCat("shard ", other.shard_id, " of ", other.shards_total,
                     " of cluster '", other.cluster_uuid, "'")))
        << status;
  }
  EXPECT_EQ(OpenOrDie(Options(folder.path()))->identity().incarnation, 2)
      << "refusals do not count";
}

// --- The catalogue ----------------------------------------------------------

TEST(Partition, KeepsTheCatalogue) {
  const TempFolder folder;
  Catalogue catalogue = TestCatalogue(
      4, {Words(), TestCollection("images", 2, 7, Metric::kSquaredL2, 3, 1)});
  {
    const auto partition = OpenOrDie(Options(folder.path()));
    EXPECT_EQ(partition->catalogue()->version, 0);
    EXPECT_EQ(Put(partition.get(), 0, catalogue).value(), 4);
  }
  const auto partition = OpenOrDie(Options(folder.path()));
  EXPECT_EQ(partition->catalogue()->version, 4);
  EXPECT_EQ(partition->catalogue()->next_number, 3u);
  EXPECT_EQ(partition->catalogue()->collections, catalogue.collections);
  EXPECT_TRUE(partition->View("images").ok());
  EXPECT_TRUE(absl::IsNotFound(partition->View("image").status()));
}

TEST(Partition, ChangesTheCatalogueOnlyFromTheExpectedVersion) {
  const TempFolder folder;
  const auto partition = OpenOrDie(Options(folder.path()));
  ASSERT_TRUE(Put(partition.get(), 0, TestCatalogue(1, {Words()})).ok());
  const absl::Status status =
      Put(partition.get(), 0, TestCatalogue(2, {})).status();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "at version 1, not 0"))
      << status;
  EXPECT_TRUE(partition->View("words").ok());
}

TEST(Partition, RefusesCataloguesThatAreNone) {
  const TempFolder folder;
  const auto partition = OpenOrDie(Options(folder.path()));
  Catalogue good = TestCatalogue(5, {Words(3)});
  ASSERT_TRUE(Put(partition.get(), 0, good).ok());
  const auto refused = [&](const char* what, auto change) {
    Catalogue next = TestCatalogue(6, {Words(3)});
    change(&next);
    const absl::Status status = Put(partition.get(), 5, next).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << what << ": " << status;
  };
  refused("an old version", [](Catalogue* c) { c->version = 5; });
  refused("numbers given back", [](Catalogue* c) {
    c->collections.clear();
    c->next_number = 3;
  });
  refused("a number twice", [](Catalogue* c) {
    c->collections.push_back(Words(3));
    c->collections[1].name = "z";
  });
  refused("a name twice", [](Catalogue* c) {
    c->collections.push_back(Words(4));
    c->next_number = 5;
  });
  refused("a number not below next_number", [](Catalogue* c) {
    c->collections.push_back(
        TestCollection("z", 4, 2, Metric::kCosine, kSlots));
  });
  refused("the number of a dropped collection", [](Catalogue* c) {
    c->collections.push_back(
        TestCollection("z", 2, 2, Metric::kCosine, kSlots));
  });
  refused("another dimension",
          [](Catalogue* c) { c->collections[0].dimension = 3; });
  refused("another metric",
          [](Catalogue* c) { c->collections[0].metric = Metric::kSquaredL2; });
  refused("another name", [](Catalogue* c) { c->collections[0].name = "w"; });
  refused("fewer slots", [](Catalogue* c) {
    c->collections[0].slots = 4;
    c->collections[0].owner.resize(4);
  });
  refused("a slot without owner",
          [](Catalogue* c) { c->collections[0].owner.pop_back(); });
  refused("an owner that does not exist",
          [](Catalogue* c) { c->collections[0].owner[3] = 2; });
  EXPECT_EQ(partition->catalogue()->version, 5);
}

TEST(Partition, GivesAwayOnlyEmptySlots) {
  const TempFolder folder;
  const auto partition = OpenOrDie(Options(folder.path()));
  ASSERT_TRUE(Put(partition.get(), 0, TestCatalogue(1, {Words()})).ok());
  ASSERT_TRUE(Apply(partition.get(), Upsert(1, {7})).ok());
  Catalogue next = TestCatalogue(2, {Words()});
  for (int32_t slot = 0; slot < kSlots; ++slot) {
    if (slot != SlotOf(7, kSlots)) next.collections[0].owner[slot] = 1;
  }
  Catalogue too_much = next;
  too_much.collections[0].owner.assign(kSlots, 1);
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Put(partition.get(), 1, too_much).status()));
  ASSERT_TRUE(Put(partition.get(), 1, next).ok());
  EXPECT_EQ(partition->View("words")->rows->slots().size(), 1u);
  // A write that was on its way to a slot given away is refused whole.
  PointId elsewhere = 0;
  while (SlotOf(elsewhere, kSlots) == SlotOf(7, kSlots)) ++elsewhere;
  EXPECT_TRUE(absl::IsFailedPrecondition(
      Apply(partition.get(), Upsert(1, {7, elsewhere})).status()));
  EXPECT_EQ(partition->View("words")->rows->rows_live(), 1);
}

TEST(Partition, ADroppedCollectionLeavesNothing) {
  const TempFolder folder;
  const auto options = Options(folder.path());
  {
    const auto partition = OpenOrDie(options);
    ASSERT_TRUE(Put(partition.get(), 0, TestCatalogue(1, {Words()})).ok());
    ASSERT_TRUE(Apply(partition.get(), Upsert(1, {1, 2, 3})).ok());
    const auto held = partition->View("words");
    ASSERT_TRUE(Put(partition.get(), 1, TestCatalogue(2, {Words(2)})).ok());
    EXPECT_EQ(held->rows->rows_live(), 3) << "a reader keeps what it has";
    EXPECT_TRUE(
        absl::IsNotFound(Apply(partition.get(), Upsert(1, {4})).status()));
    EXPECT_EQ(partition->View("words")->rows->rows_live(), 0)
        << "the new collection of the same name is empty";
    ASSERT_TRUE(Apply(partition.get(), Upsert(2, {9})).ok());
  }
  EXPECT_EQ(OpenOrDie(options)->View("words")->rows->rows_live(), 1);
  const auto store = RecordStore::Open(folder.path());
  for (const Family family :
       {Family::kRows, Family::kAttributes, Family::kLog}) {
    const auto cursor = (*store)->Walk(family, SlotStart(1, 0),
                                       SlotStart(1, kMaxSlots), nullptr);
    EXPECT_FALSE(cursor->Valid());
    EXPECT_TRUE(cursor->status().ok());
  }
}

// --- Writes -----------------------------------------------------------------

// Between the filter's answer and its turn a point may have changed.
TEST(Partition, ADeleteByFilterSparesWhatIsNotAdmittedAnyMore) {
  const TempFolder folder;
  const auto partition = OpenOrDie(Options(folder.path()));
  ASSERT_TRUE(Put(partition.get(), 0, TestCatalogue(1, {Words()})).ok());
  ASSERT_TRUE(Apply(partition.get(), Upsert(1, {1, 2, 3})).ok());
  LogEntry update;
  update.collection = 1;
  LogEntry remove;
  remove.collection = 1;
  remove.where.must.push_back(MatchCondition{"id", {std::string("x")}});
  for (const PointId id : {1, 2, 3}) {
    SlotMutations slot{SlotOf(id, kSlots), {}, {id}, {}, 1};
    if (id == 1) {
      update.slots.push_back(
          {slot.slot, {}, {}, {{1, {{"id", std::string("y")}}}}});
    }
    remove.slots.push_back(std::move(slot));
  }
  // In one group, so that the disk does not have the update yet.
  const LogEntry* const entries[] = {&update, &remove};
  absl::StatusOr<WriteReply> replies[] = {WriteReply(), WriteReply()};
  ASSERT_TRUE(partition->ApplyGroup(entries, absl::MakeSpan(replies)).ok());
  ASSERT_TRUE(replies[1].ok()) << replies[1].status();
  EXPECT_EQ(replies[1]->deleted, 2);
  EXPECT_EQ(partition->View("words")->rows->rows_live(), 1);
  EXPECT_TRUE(partition->View("words")->rows->Find(1).has_value());
  // And in a later one.
  const auto again = Apply(partition.get(), remove);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->deleted, 0);
  EXPECT_EQ(partition->View("words")->rows->rows_live(), 1);
}

TEST(Partition, AppliesAGroupInOrderAsIfOneByOne) {
  const TempFolder folder;
  const auto partition = OpenOrDie(Options(folder.path()));
  ASSERT_TRUE(Put(partition.get(), 0, TestCatalogue(1, {Words()})).ok());
  LogEntry remove;
  remove.collection = 1;
  remove.slots.push_back({SlotOf(5, kSlots), {}, {5, 6000}});
  const LogEntry add = Upsert(1, {5});
  const LogEntry gone = Upsert(77, {5});
  const LogEntry* const entries[] = {&add, &remove, &gone, &add};
  std::vector<absl::StatusOr<WriteReply>> replies(4, WriteReply());
  ASSERT_TRUE(partition->ApplyGroup(entries, absl::MakeSpan(replies)).ok());
  EXPECT_EQ(replies[0]->sequence, 1);
  EXPECT_EQ(replies[1]->deleted, 1) << "of two, one was stored";
  EXPECT_TRUE(absl::IsNotFound(replies[2].status()));
  EXPECT_EQ(replies[3]->sequence, 3);
  EXPECT_EQ(partition->View("words")->sequence, 3);
  EXPECT_EQ(partition->View("words")->rows->rows_live(), 1);
}

// --- Damage: refused at start, named ----------------------------------------

// A partition with three points, closed; changed behind its back.
class DamagedPartition : public ::testing::Test {
 protected:
  DamagedPartition() {
    const auto partition = OpenOrDie(Options(folder_.path()));
    EXPECT_TRUE(Put(partition.get(), 0, TestCatalogue(1, {Words()})).ok());
    EXPECT_TRUE(Apply(partition.get(), Upsert(1, {1, 2, 3})).ok());
  }

  void Change(const StoreBatch& batch) {
    const auto store = RecordStore::Open(folder_.path());
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)->Write(batch).ok());
  }

  static std::string Key(PointId id) {
    return EncodeKey({1, SlotOf(id, kSlots), id});
  }

  // DATA_LOSS whose message has each part.
  void ExpectRefused(const std::vector<std::string>& parts) {
    const absl::Status status =
        Partition::Open(Options(folder_.path())).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    for (const std::string& part : parts) {
      EXPECT_TRUE(absl::StrContains(status.message(), part))
          << status << " does not say " << part;
    }
    EXPECT_TRUE(absl::StrContains(status.message(), folder_.path())) << status;
  }

  TempFolder folder_;
};

TEST_F(DamagedPartition, OpensUndamaged) {
  EXPECT_EQ(OpenOrDie(Options(folder_.path()))->totals().points, 3);
}

TEST_F(DamagedPartition, ACutRowIsNamed) {
  StoreBatch batch;
  batch.Put(Family::kRows, Key(2), EncodeVector({1}));
  Change(batch);
  ExpectRefused(
      {absl::StrCat("collection 1, slot ", SlotOf(2, kSlots), ", id 2")});
}

TEST_F(DamagedPartition, AGarbageRowIsNamed) {
  StoreBatch batch;
  batch.Put(Family::kRows, Key(3), std::string(9, '\x7f'));
  Change(batch);
  ExpectRefused({"row", "id 3"});
}

TEST_F(DamagedPartition, ARowThatItsMetricRefusesIsNamed) {
  StoreBatch batch;
  batch.Put(Family::kRows, Key(3), EncodeVector({0, 0}));
  Change(batch);
  ExpectRefused({"row", "id 3"});
}

TEST_F(DamagedPartition, ARowInAWrongSlotIsNamed) {
  StoreBatch batch;
  batch.Put(Family::kRows, EncodeKey({1, (SlotOf(9, kSlots) + 1) % kSlots, 9}),
            EncodeVector({1, 1}));
  Change(batch);
  ExpectRefused({"row", "id 9", "slot"});
}

TEST_F(DamagedPartition, ARowOfNoCollectionIsNamed) {
  StoreBatch batch;
  batch.Put(Family::kRows, EncodeKey({8, 0, 9}), EncodeVector({1, 1}));
  Change(batch);
  ExpectRefused({"collection 8", "id 9"});
}

TEST_F(DamagedPartition, AMissingRowIsNoticed) {
  StoreBatch batch;
  batch.Delete(Family::kRows, Key(2));
  Change(batch);
  ExpectRefused({"'words'", absl::StrCat("slot ", SlotOf(2, kSlots)), "rows"});
}

TEST_F(DamagedPartition, AnExtraRowIsNoticed) {
  StoreBatch batch;
  batch.Put(Family::kRows, Key(4), EncodeVector({1, 1}));
  Change(batch);
  ExpectRefused({"'words'", absl::StrCat("slot ", SlotOf(4, kSlots))});
}

TEST_F(DamagedPartition, ALostLogRecordIsNoticed) {
  StoreBatch batch;
  batch.DeleteRange(Family::kLog, SlotStart(1, 0), SlotStart(1, kMaxSlots));
  Change(batch);
  ExpectRefused({"'words'", "offset 1", "log up to 0"});
}

TEST_F(DamagedPartition, DamagedDescribingRecordsAreNamed) {
  // Last read first, so that each is met before those damaged earlier.
  const std::pair<std::string, std::string> cases[] = {
      {SlotStateKey(1, SlotOf(1, kSlots)), "slot"},
      {SequenceKey(), "sequence"},
      {CatalogueKey(), "catalogue"},
      {IdentityKey(), "identity"},
  };
  for (const auto& [key, name] : cases) {
    StoreBatch batch;
    batch.Put(Family::kMeta, key, "\x01garbage");
    Change(batch);
    ExpectRefused({name});
  }
}

TEST_F(DamagedPartition, AMissingIdentityIsNoticed) {
  StoreBatch batch;
  batch.Delete(Family::kMeta, IdentityKey());
  Change(batch);
  ExpectRefused({"identity"});
}

TEST_F(DamagedPartition, ALogFromTheFutureIsNoticed) {
  StoreBatch batch;
  batch.Put(Family::kMeta, SequenceKey(), EncodeSequence(0));
  Change(batch);
  ExpectRefused({"log record", "sequence"});
}

}  // namespace
}  // namespace coterie
