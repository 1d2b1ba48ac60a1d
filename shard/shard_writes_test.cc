// Repeated writes and changed attributes, through a whole shard.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "api/placement.h"
#include "api/status_details.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/request_table.h"
#include "shard/shard_harness.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

constexpr int32_t kSlots = 8;

Point At(PointId id, float x, Attributes attributes = {}) {
  return {id, {x, 1}, std::move(attributes)};
}

WriteBatch UpsertOf(std::vector<Point> points,
                    std::optional<RequestId> request = {}) {
  WriteBatch batch{"c", std::move(points), {}};
  batch.request_id = std::move(request);
  return batch;
}

WriteBatch DeleteOf(std::vector<PointId> ids,
                    std::optional<RequestId> request = {}) {
  WriteBatch batch{"c", {}, std::move(ids)};
  batch.request_id = std::move(request);
  return batch;
}

WriteBatch UpdateOf(std::vector<AttributeUpdate> updates,
                    AttributeMode mode = AttributeMode::kMerge,
                    std::optional<RequestId> request = {}) {
  WriteBatch batch{"c", {}, {}};
  batch.updates = std::move(updates);
  batch.mode = mode;
  batch.request_id = std::move(request);
  return batch;
}

// The first coordinate of a stored point.
std::optional<float> Stored(ShardHarness* shard, PointId id) {
  const auto reply = shard->Get({id});
  EXPECT_TRUE(reply.ok()) << reply.status();
  if (reply->points.empty()) return std::nullopt;
  return reply->points[0].vector[0];
}

Attributes AttributesOf(ShardHarness* shard, PointId id) {
  const auto reply = shard->Get({id});
  EXPECT_TRUE(reply.ok()) << reply.status();
  return reply->points.at(0).attributes;
}

std::unique_ptr<ShardHarness> OpenShard() {
  return OpenWithCollection(2, Metric::kSquaredL2);
}

// Two ids of one slot, and one of another.
struct SlotMates {
  PointId a = 1;
  PointId b = 2;
  PointId elsewhere = 2;
  SlotMates() {
    while (SlotOf(b, kSlots) != SlotOf(a, kSlots)) ++b;
    while (SlotOf(elsewhere, kSlots) == SlotOf(a, kSlots)) ++elsewhere;
  }
};

// --- Repeats ----------------------------------------------------------------

TEST(Repeats, ALateOneDoesNotOverwriteNewerData) {
  const auto shard = OpenShard();
  const auto first = shard->Apply(UpsertOf({At(1, 1)}, RequestId{"a", 1}));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->upserted, 1);
  EXPECT_EQ(first->duplicates, 0);
  ASSERT_TRUE(shard->Apply(UpsertOf({At(1, 2)}, RequestId{"b", 1})).ok());
  for (int restart = 0; restart < 2; ++restart) {
    const auto late = shard->Apply(UpsertOf({At(1, 1)}, RequestId{"a", 1}));
    ASSERT_TRUE(late.ok()) << late.status();
    EXPECT_EQ(late->upserted, 0);
    EXPECT_EQ(late->duplicates, 1);
    EXPECT_EQ(late->sequence, 2) << "nothing was written";
    EXPECT_EQ(Stored(shard.get(), 1), 2);
    shard->Reopen();
  }
}

TEST(Repeats, ALowerSequenceIsLate) {
  const auto shard = OpenShard();
  ASSERT_TRUE(shard->Apply(UpsertOf({At(1, 7)}, RequestId{"a", 7})).ok());
  EXPECT_EQ(shard->Apply(DeleteOf({1}, RequestId{"a", 6}))->duplicates, 1);
  EXPECT_EQ(Stored(shard.get(), 1), 7);
  EXPECT_EQ(shard->Apply(DeleteOf({1}, RequestId{"a", 8}))->deleted, 1);
  EXPECT_EQ(shard->Apply(UpsertOf({At(1, 7)}, RequestId{"a", 7}))->duplicates,
            1);
  EXPECT_EQ(Stored(shard.get(), 1), std::nullopt) << "deleted stays deleted";
}

TEST(Repeats, AreKnownSlotBySlot) {
  const SlotMates ids;
  const auto shard = OpenShard();
  // As after a failure that left one slot without the write.
  ASSERT_TRUE(shard->Apply(UpsertOf({At(ids.a, 1)}, RequestId{"a", 1})).ok());
  const auto again = shard->Apply(
      UpsertOf({At(ids.a, 1), At(ids.elsewhere, 1)}, RequestId{"a", 1}));
  EXPECT_EQ(again->upserted, 1);
  EXPECT_EQ(again->duplicates, 1);
  EXPECT_EQ(Stored(shard.get(), ids.elsewhere), 1);
}

TEST(Repeats, WithoutRequestIdAreAppliedAgain) {
  const auto shard = OpenShard();
  ASSERT_TRUE(shard->Apply(UpsertOf({At(1, 1)})).ok());
  ASSERT_TRUE(shard->Apply(UpsertOf({At(1, 2)})).ok());
  EXPECT_EQ(shard->Apply(UpsertOf({At(1, 1)}))->upserted, 1);
  EXPECT_EQ(Stored(shard.get(), 1), 1);
}

TEST(Repeats, AClientThatOthersDisplacedIsNewAgainAlsoAfterARestart) {
  const auto shard = OpenShard();
  const auto write = [&](const std::string& client) {
    return shard->Apply(UpsertOf({At(1, 1)}, RequestId{client, 1}))->duplicates;
  };
  EXPECT_EQ(write("first"), 0);
  for (size_t i = 1; i < RequestTable::kClientsPerSlot; ++i) {
    EXPECT_EQ(write(absl::StrCat("other", i)), 0);
  }
  shard->Reopen();
  EXPECT_EQ(write("first"), 1) << "still among the last";
  EXPECT_EQ(write("one more"), 0);
  shard->Reopen();
  EXPECT_EQ(write("other1"), 1);
  EXPECT_EQ(write("first"), 0) << "displaced";
}

TEST(Repeats, AreForgottenWithTheCollection) {
  const auto shard = OpenShard();
  ASSERT_TRUE(shard->Apply(UpsertOf({At(1, 1)}, RequestId{"a", 1})).ok());
  Catalogue none = TestCatalogue(2, {});
  none.next_number = 2;
  ASSERT_TRUE(shard->PutCatalogue(1, none).ok());
  ASSERT_TRUE(
      shard
          ->PutCatalogue(
              2, TestCatalogue(3, {TestCollection("c", 2, 2, Metric::kSquaredL2,
                                                  kSlots)}))
          .ok());
  shard->Reopen();
  EXPECT_EQ(shard->Apply(UpsertOf({At(1, 1)}, RequestId{"a", 1}))->upserted, 1);
}

TEST(Repeats, RequestIdsThatAreNoneAreRefused) {
  const auto shard = OpenShard();
  const struct {
    RequestId request;
    const char* field;
  } cases[] = {{{"", 1}, "request_id.client_id"},
               {{std::string(65, 'a'), 1}, "request_id.client_id"},
               {{"a", -1}, "request_id.sequence"}};
  for (const auto& c : cases) {
    const absl::Status status =
        shard->Apply(UpsertOf({At(1, 1)}, c.request)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(FieldOf(status), c.field);
  }
}

// Writes of three clients, some repeated late and out of order, across
// restarts; the model applies each (slot, client) sequence once.
TEST(Repeats, BehaveAsIfEachWriteArrivedOnce) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  const auto shard = OpenShard();
  std::map<PointId, float> model;
  std::map<std::pair<std::string, int32_t>, int64_t> applied;
  std::vector<WriteBatch> sent;
  for (int64_t step = 1; step <= 400; ++step) {
    WriteBatch batch{"c", {}, {}};
    if (!sent.empty() && random() % 3 == 0) {
      batch = sent[random() % sent.size()];
    } else {
      batch.request_id = RequestId{absl::StrCat("c", random() % 3), step};
      for (PointId id = random() % 5; id < 20; id += 1 + random() % 6) {
        if (random() % 4 == 0) {
          batch.deletes.push_back(id);
        } else {
          batch.upserts.push_back(At(id, static_cast<float>(step)));
        }
      }
      sent.push_back(batch);
    }
    std::map<int32_t, int64_t> slots;  // items of those the write is new to
    const auto is_new = [&](PointId id) {
      const int32_t slot = SlotOf(id, kSlots);
      if (applied[{batch.request_id->client_id, slot}] >=
          batch.request_id->sequence) {
        return false;
      }
      ++slots[slot];
      return true;
    };
    int64_t duplicates = 0;
    for (const Point& point : batch.upserts) {
      if (is_new(point.id)) {
        model[point.id] = point.vector[0];
      } else {
        ++duplicates;
      }
    }
    for (const PointId id : batch.deletes) {
      if (is_new(id)) {
        model.erase(id);
      } else {
        ++duplicates;
      }
    }
    for (const auto& [slot, items] : slots) {
      applied[{batch.request_id->client_id, slot}] = batch.request_id->sequence;
    }
    ASSERT_EQ(shard->Apply(batch)->duplicates, duplicates) << step;
    if (random() % 100 == 0) shard->Reopen();
  }
  const auto points = shard->ScanAll(WholeScan());
  ASSERT_TRUE(points.ok()) << points.status();
  std::map<PointId, float> stored;
  for (const Point& point : *points) stored[point.id] = point.vector[0];
  EXPECT_EQ(stored, model);
}

// --- Attributes -------------------------------------------------------------

TEST(SetAttributes, MergesOrReplacesAndTouchesNoVector) {
  const auto shard = OpenShard();
  ASSERT_TRUE(
      shard->Apply(UpsertOf({At(1, 5, {{"a", int64_t{1}}, {"b", true}})}))
          .ok());
  const auto merged = shard->Apply(
      UpdateOf({{1, {{"a", std::string("x")}, {"c", 0.5}}}, {2, {}}}));
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->updated, 1);
  EXPECT_EQ(merged->missing, std::vector<PointId>{2});
  const Attributes expected = {
      {"a", std::string("x")}, {"b", true}, {"c", 0.5}};
  EXPECT_EQ(AttributesOf(shard.get(), 1), expected);
  ASSERT_TRUE(
      shard->Apply(UpdateOf({{1, {{"d", true}}}}, AttributeMode::kReplace))
          .ok());
  shard->Reopen();
  EXPECT_EQ(AttributesOf(shard.get(), 1), (Attributes{{"d", true}}));
  EXPECT_EQ(Stored(shard.get(), 1), 5);
  EXPECT_EQ(shard->Stats()->dead_rows, 0) << "no row was written again";
}

TEST(SetAttributes, IsVisibleToFiltersAtItsSequence) {
  const auto shard = OpenShard();
  ASSERT_TRUE(shard->Apply(UpsertOf({At(1, 5), At(2, 5)})).ok());
  Filter filter;
  filter.must.push_back(HasAttributeCondition{"label"});
  EXPECT_EQ(*shard->Count(filter), 0);
  const auto reply = shard->Apply(UpdateOf({{2, {{"label", int64_t{3}}}}}));
  EXPECT_EQ(*shard->Count(filter), 1);
  EXPECT_EQ(shard->Describe().sequence, reply->sequence);
}

TEST(SetAttributes, MergedSetsKeepTheLimitsOrNothingIsWritten) {
  const auto shard = OpenShard();
  shard->options()->limits.attributes_per_point = 2;
  shard->options()->limits.attribute_set_bytes = 20;
  shard->Reopen();
  ASSERT_TRUE(shard->Apply(UpsertOf({At(1, 5, {{"a", true}}), At(2, 5)})).ok());
  const struct {
    AttributeUpdate update;
    const char* limit;
  } cases[] = {{{1, {{"b", true}, {"c", true}}}, "attributes_per_point"},
               {{1, {{"b", std::string(18, 'x')}}}, "attribute_set_bytes"}};
  for (const auto& c : cases) {
    const absl::Status status =
        shard->Apply(UpdateOf({{2, {{"z", true}}}, c.update})).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), c.limit)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "point 1")) << status;
  }
  EXPECT_EQ(AttributesOf(shard.get(), 1), (Attributes{{"a", true}}));
  EXPECT_TRUE(AttributesOf(shard.get(), 2).empty()) << "whole or not at all";
  EXPECT_TRUE(shard->Apply(UpdateOf({{1, {{"b", true}}}})).ok());
}

TEST(SetAttributes, ARepeatIsNotAppliedAgain) {
  const auto shard = OpenShard();
  ASSERT_TRUE(shard->Apply(UpsertOf({At(1, 5)})).ok());
  const WriteBatch update = UpdateOf({{1, {{"a", int64_t{1}}}}},
                                     AttributeMode::kMerge, RequestId{"x", 1});
  EXPECT_EQ(shard->Apply(update)->updated, 1);
  ASSERT_TRUE(shard->Apply(UpdateOf({{1, {{"a", int64_t{2}}}}})).ok());
  shard->Reopen();
  EXPECT_EQ(shard->Apply(update)->duplicates, 1);
  EXPECT_EQ(AttributesOf(shard.get(), 1), (Attributes{{"a", int64_t{2}}}));
}

TEST(SetAttributes, DoNotComeWithOtherWrites) {
  const auto shard = OpenShard();
  WriteBatch batch = UpdateOf({{1, {}}});
  batch.deletes.push_back(2);
  EXPECT_TRUE(absl::IsInvalidArgument(shard->Apply(batch).status()));
}

// Many writes under way at once, so that groups hold several: a merge must see
// what its own group wrote before it.
TEST(SetAttributes, MergeInOrderWithWritesOfTheirGroup) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  const auto shard = OpenShard();
  std::map<PointId, Attributes> model;
  std::vector<Answer<WriteReply>> answers(300);
  std::vector<int64_t> missing(answers.size());
  for (size_t step = 0; step < answers.size(); ++step) {
    const PointId id = random() % 4;
    const Attributes attributes = RandomAttributes(random);
    const bool stored = model.count(id) == 1;
    WriteBatch batch{"c", {}, {}};
    switch (random() % 6) {
      case 0:
        batch = UpsertOf({At(id, 1, attributes)});
        model[id] = attributes;
        break;
      case 1:
        batch = DeleteOf({id});
        model.erase(id);
        break;
      case 2:
        batch = UpdateOf({{id, attributes}}, AttributeMode::kReplace);
        if (stored) model[id] = attributes;
        missing[step] = stored ? 0 : 1;
        break;
      default:
        batch = UpdateOf({{id, attributes}});
        missing[step] = stored ? 0 : 1;
        if (!stored) break;
        for (const auto& [key, value] : attributes) model[id][key] = value;
    }
    (*shard)->Write(std::move(batch), {}, answers[step].done());
  }
  for (size_t step = 0; step < answers.size(); ++step) {
    const auto reply = answers[step].Wait();
    ASSERT_TRUE(reply.ok()) << reply.status();
    ASSERT_EQ(static_cast<int64_t>(reply->missing.size()), missing[step]);
  }
  shard->Reopen();
  std::map<PointId, Attributes> found;
  const auto points = shard->ScanAll(WholeScan());
  ASSERT_TRUE(points.ok()) << points.status();
  for (const Point& point : *points) {
    found[point.id] = point.attributes;
  }
  EXPECT_EQ(found, model);
}

}  // namespace
}  // namespace coterie
