// Writes that fail in part, and their repeats, over fake shards.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/placement.h"
#include "api/status_details.h"
#include "api/write_outcome.h"
#include "coordinator/coordinator.h"
#include "coordinator/fake_cluster.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kSlots = 1024;

// Points 1 on shard 0; 2 and 3 on shard 1; 4 on shard 2.
CoordinatorOptions FourPlaced() {
  CoordinatorOptions options;
  options.placement = [](int32_t slots, int32_t) {
    return PlacementOf({{1, 0}, {2, 1}, {3, 1}, {4, 2}}, slots);
  };
  return options;
}

WriteBatch UpsertOf(std::vector<Point> points,
                    std::optional<RequestId> request = {}) {
  WriteBatch batch;
  batch.collection = "a";
  batch.upserts = std::move(points);
  batch.request_id = std::move(request);
  return batch;
}

WriteBatch UpsertFour(float x, std::optional<RequestId> request = {}) {
  return UpsertOf({MakePoint(1, {x}), MakePoint(2, {x}), MakePoint(3, {x}),
                   MakePoint(4, {x})},
                  std::move(request));
}

WriteBatch UpdateOf(std::vector<AttributeUpdate> updates,
                    AttributeMode mode = AttributeMode::kMerge) {
  WriteBatch batch;
  batch.collection = "a";
  batch.updates = std::move(updates);
  batch.mode = mode;
  return batch;
}

float Stored(FakeCluster& cluster, PointId id) {
  const auto got = cluster.Get("a", {id});
  EXPECT_TRUE(got.ok()) << got.status();
  return got->points.at(0).vector.at(0);
}

Attributes AttributesOf(FakeCluster& cluster, PointId id) {
  GetRequest request;
  request.collection = "a";
  request.ids = {id};
  request.with_attributes.all = true;
  const auto got = Wait<GetReply>([&](Done<GetReply> done) {
    cluster.coordinator->Get(request, {}, std::move(done));
  });
  EXPECT_TRUE(got.ok()) << got.status();
  return got->points.at(0).attributes;
}

// --- Partial failures -------------------------------------------------------

TEST(PartialWrites, ListWhatWasAppliedByShardAndSlot) {
  FakeCluster cluster(3, {}, FourPlaced());
  ASSERT_TRUE(cluster.Create("a", 1, Metric::kSquaredL2, kSlots).ok());
  cluster.shard(1).Fail("Write", absl::UnavailableError("gone"));
  const absl::Status status = cluster.Write(UpsertFour(1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ShardOf(status), 1);
  std::vector<int32_t> failed = {SlotOf(2, kSlots), SlotOf(3, kSlots)};
  std::sort(failed.begin(), failed.end());
  WriteOutcome expected;
  expected.parts = {{0, 1, {SlotOf(1, kSlots)}, absl::StatusCode::kOk},
                    {1, 2, failed, absl::StatusCode::kUnavailable},
                    {2, 1, {SlotOf(4, kSlots)}, absl::StatusCode::kOk}};
  EXPECT_EQ(OutcomeOf(status), expected);
}

TEST(PartialWrites, OfDeletesAndUpdatesListItToo) {
  FakeCluster cluster(3, {}, FourPlaced());
  ASSERT_TRUE(cluster.Create("a", 1, Metric::kSquaredL2, kSlots).ok());
  ASSERT_TRUE(cluster.Write(UpsertFour(1)).ok());
  for (int32_t shard : {0, 1}) {
    cluster.shard(shard).Fail("Write", absl::DeadlineExceededError("late"));
  }
  WriteBatch remove;
  remove.collection = "a";
  remove.deletes = {4, 3, 2};
  for (const WriteBatch& batch : {remove, UpdateOf({{4, {}}, {2, {}}})}) {
    const auto outcome = OutcomeOf(cluster.Write(batch).status());
    ASSERT_TRUE(outcome.has_value());
    ASSERT_EQ(outcome->parts.size(), 2u);
    EXPECT_EQ(outcome->parts[0].shard, 1);
    EXPECT_EQ(outcome->parts[0].code, absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(outcome->parts[1].shard, 2);
    EXPECT_EQ(outcome->parts[1].code, absl::StatusCode::kOk);
  }
}

TEST(PartialWrites, ARepeatCompletesWhatIsMissing) {
  FakeCluster cluster(3, {}, FourPlaced());
  ASSERT_TRUE(cluster.Create("a", 1, Metric::kSquaredL2, kSlots).ok());
  cluster.shard(1).FailOnce("Write", absl::UnavailableError("gone"));
  const WriteBatch batch = UpsertFour(1, RequestId{"me", 1});
  ASSERT_FALSE(cluster.Write(batch).ok());
  // Somebody else is faster than the repeat.
  ASSERT_TRUE(cluster.Write(UpsertOf({MakePoint(1, {2})})).ok());
  const auto again = cluster.Write(batch);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->upserted, 2);
  EXPECT_EQ(again->duplicates, 2);
  EXPECT_EQ(Stored(cluster, 1), 2) << "newer data stays";
  EXPECT_EQ(Stored(cluster, 2), 1);
}

TEST(PartialWrites, ALostReplyIsNotAppliedTwice) {
  FakeCluster cluster(3, {}, FourPlaced());
  ASSERT_TRUE(cluster.Create("a", 1, Metric::kSquaredL2, kSlots).ok());
  cluster.shard(1).LoseReplyOnce("Write", absl::UnavailableError("cut"));
  const WriteBatch batch = UpsertFour(1, RequestId{"me", 1});
  const absl::Status lost = cluster.Write(batch).status();
  EXPECT_EQ(OutcomeOf(lost)->parts[1].code, absl::StatusCode::kUnavailable)
      << "unknown is not applied";
  ASSERT_TRUE(cluster.Write(UpsertFour(2, RequestId{"other", 1})).ok());
  EXPECT_EQ(cluster.Write(batch)->duplicates, 4);
  for (PointId id = 1; id <= 4; ++id) {
    EXPECT_EQ(Stored(cluster, id), 2);
  }
}

// Two clients write in turns; calls fail before or after they are applied; each
// client repeats until it is answered, and old requests come again. The model
// applies each request once, when it is first acknowledged.
TEST(PartialWrites, RepeatsUnderRandomFaultsLeaveTheLastWrite) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  FakeCluster cluster(3);
  ASSERT_TRUE(cluster.Create("a", 1, Metric::kSquaredL2, 16).ok());
  std::map<PointId, float> model;
  std::vector<WriteBatch> acknowledged;
  int faults = 0;
  for (int64_t step = 1; step <= 300; ++step) {
    WriteBatch batch;
    batch.collection = "a";
    batch.request_id = RequestId{absl::StrCat("client", step % 2), step};
    for (PointId id = random() % 4; id < 20; id += 1 + random() % 5) {
      if (random() % 5 == 0) {
        batch.deletes.push_back(id);
        model.erase(id);
      } else {
        model[id] = static_cast<float>(step);
        batch.upserts.push_back(MakePoint(id, {model[id]}));
      }
    }
    // The coordinator takes one kind at a time; one request each.
    WriteBatch removal = batch;
    removal.upserts.clear();
    removal.request_id->client_id += "/deletes";
    batch.deletes.clear();
    for (WriteBatch* each : {&batch, &removal}) {
      if (each->upserts.empty() && each->deletes.empty()) {
        continue;
      }
      const auto fault = static_cast<int32_t>(random() % 6);
      if (fault < 3) {
        cluster.shard(fault).FailOnce("Write", absl::UnavailableError("down"));
      } else {
        cluster.shard(fault - 3).LoseReplyOnce("Write",
                                               absl::UnavailableError("cut"));
      }
      while (!cluster.Write(*each).ok()) {
        ++faults;
      }
      acknowledged.push_back(*each);
    }
    if (random() % 2 == 0) {
      const WriteBatch& late = acknowledged[random() % acknowledged.size()];
      const auto reply = cluster.Write(late);
      if (reply.ok()) {
        ASSERT_EQ(reply->duplicates, static_cast<int64_t>(late.upserts.size() +
                                                          late.deletes.size()));
      }
    }
  }
  EXPECT_GT(faults, 100);
  ASSERT_EQ(*cluster.Count("a"), static_cast<int64_t>(model.size()));
  for (const auto& [id, x] : model) {
    EXPECT_EQ(Stored(cluster, id), x) << id;
  }
}

// --- Attributes -------------------------------------------------------------

TEST(SetAttributes, ReachOwnersAndListUnknownIdsInOrder) {
  FakeCluster cluster(3);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  std::vector<Point> points;
  for (PointId id = 0; id < 30; ++id) {
    points.push_back(MakePoint(id, {static_cast<float>(id)}));
    points.back().attributes = {{"old", true}};
  }
  ASSERT_TRUE(cluster.Upsert("a", points).ok());
  std::vector<AttributeUpdate> updates;
  for (PointId id : {99, 3, 77, 12, 50, 29}) {
    updates.push_back({id, {{"new", static_cast<int64_t>(id)}}});
  }
  const auto merged = cluster.Write(UpdateOf(updates));
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->updated, 3);
  EXPECT_THAT(merged->missing, ElementsAre(99, 77, 50));
  EXPECT_EQ(AttributesOf(cluster, 12),
            (Attributes{{"new", int64_t{12}}, {"old", true}}));
  EXPECT_EQ(AttributesOf(cluster, 13), (Attributes{{"old", true}}));
  ASSERT_TRUE(cluster.Write(UpdateOf(updates, AttributeMode::kReplace)).ok());
  EXPECT_EQ(AttributesOf(cluster, 12), (Attributes{{"new", int64_t{12}}}));
  EXPECT_EQ(Stored(cluster, 12), 12);
}

TEST(SetAttributes, BadBatchesAreNamedAndNoShardHears) {
  CoordinatorOptions options;
  options.limits.points_per_upsert = 2;
  FakeCluster cluster(1, {}, options);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  const auto refused = [&](const WriteBatch& batch) {
    return Wait<WriteReply>([&](Done<WriteReply> done) {
             cluster.coordinator->SetAttributes(batch, {}, std::move(done));
           })
        .status();
  };
  EXPECT_EQ(FieldOf(refused(UpdateOf({}))), "updates");
  EXPECT_EQ(FieldOf(refused(UpdateOf({{1, {}}, {1, {}}}))), "updates[1].id");
  EXPECT_THAT(
      std::string(refused(UpdateOf({{1, {}}, {2, {}}, {3, {}}})).message()),
      HasSubstr("points_per_upsert"));
  EXPECT_FALSE(refused(UpsertFour(1)).ok());
  EXPECT_EQ(cluster.shard(0).calls("Write"), 0);
  WriteBatch elsewhere = UpdateOf({{1, {}}});
  elsewhere.collection = "b";
  EXPECT_EQ(refused(elsewhere).code(), absl::StatusCode::kNotFound);
}

// Of a limit that only the shard can check.
TEST(SetAttributes, ALimitMetOnAShardStaysAnInvalidArgument) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  const absl::Status over =
      OverLimit("attributes of point 1", 65, "attributes_per_point", 64);
  cluster.shard(0).Fail("Write", over);
  cluster.shard(1).Fail("Write", over);
  const absl::Status status = cluster.Write(UpdateOf({{1, {}}})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(FieldOf(status), "attributes of point 1");
  EXPECT_THAT(std::string(status.message()), HasSubstr("attributes_per_point"));
  EXPECT_TRUE(OutcomeOf(status).has_value());
}

}  // namespace
}  // namespace coterie
