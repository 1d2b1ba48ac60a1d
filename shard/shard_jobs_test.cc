// Jobs and records of a shard: who owns them, what they pin, when they go.

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/job_messages.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/shard_harness.h"
#include "training/kmeans_codec.h"
#include "training/kmeans_messages.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Hours(1);
constexpr int64_t kRows = 40;

class ShardJobsTest : public testing::Test {
 protected:
  void Open() {
    shard_.Open();
    ASSERT_TRUE(
        shard_
            .PutCatalogue(
                0, TestCatalogue(
                       1, {TestCollection("c", 1, 2, Metric::kSquaredL2, 4)}))
            .ok());
    std::vector<Point> points;
    for (PointId id = 0; id < kRows; ++id) {
      Point& point = points.emplace_back();
      point.id = id;
      point.vector = {static_cast<float>(id), static_cast<float>(id % 3)};
      if (id % 4 != 0) point.attributes["w"] = static_cast<int64_t>(id % 4);
    }
    ASSERT_TRUE(shard_.Write(std::move(points)).ok());
  }

  static JobBegin BeginOf(const std::string& name, int64_t epoch) {
    JobBegin begin;
    begin.job = {"c", 1, name, epoch};
    begin.lease = kLong;
    return begin;
  }
  absl::StatusOr<JobBegun> Begin(JobBegin begin) {
    Answer<JobBegun> answer;
    shard_->BeginJob(std::move(begin), {}, answer.done());
    return answer.Wait();
  }
  absl::StatusOr<JobAnswer> StepBytes(JobRef job, std::string bytes,
                                      CallContext call = {}) {
    Answer<JobAnswer> answer;
    shard_->StepJob(
        {std::move(job), std::make_shared<const std::string>(std::move(bytes))},
        std::move(call), answer.done());
    return answer.Wait();
  }
  absl::StatusOr<KMeansPartial> Step(const JobRef& job, const KMeansStep& step,
                                     CallContext call = {}) {
    auto answer = StepBytes(job, EncodeKMeansStep(step), std::move(call));
    if (!answer.ok()) return answer.status();
    return DecodeKMeansPartial(answer->partial);
  }
  bool End(const JobRef& job) {
    Answer<bool> answer;
    shard_->EndJob(job, {}, answer.done());
    return answer.Wait().value_or(false);
  }
  absl::StatusOr<int64_t> Put(RecordPut put) {
    put.collection = "c";
    Answer<int64_t> answer;
    shard_->PutRecord(std::move(put), {}, answer.done());
    return answer.Wait();
  }
  absl::StatusOr<std::vector<StoredRecord>> Read(const std::string& prefix,
                                                 bool with_values = true) {
    Answer<std::vector<StoredRecord>> answer;
    shard_->ReadRecords({"c", 0, prefix, with_values}, {}, answer.done());
    return answer.Wait();
  }

  static KMeansStep Extent() {
    KMeansStep step;
    step.number = 1;
    step.kind = KMeansStepKind::kExtent;
    return step;
  }
  // Steps 2 and 3: the scale, then an assignment to two centres.
  absl::StatusOr<KMeansPartial> Assign(const JobRef& job,
                                       const KMeansExtent& extent) {
    KMeansStep totals;
    totals.number = 2;
    totals.kind = KMeansStepKind::kTotals;
    totals.scale = ScaleFor(Metric::kSquaredL2, extent, {});
    auto done = Step(job, totals);
    if (!done.ok()) return done;
    return Step(job, AssignStep());
  }
  static KMeansStep AssignStep() {
    KMeansStep assign;
    assign.number = 3;
    assign.kind = KMeansStepKind::kAssign;
    assign.rows = {0, 0, 100, 0};
    return assign;
  }

  ShardHarness shard_;
};

TEST_F(ShardJobsTest, PinTheRowsWhileWritesGoOn) {
  Open();
  const JobBegin begin = BeginOf("j", 1);
  const auto begun = Begin(begin);
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->rows, kRows);
  ASSERT_TRUE(shard_.Write({{100, {5, 5}, {}}, {1, {9, 9}, {}}}, {2, 3}).ok());
  const auto extent = Step(begin.job, Extent());
  ASSERT_TRUE(extent.ok()) << extent.status();
  EXPECT_EQ(extent->extent.rows, kRows);
  const auto again = Begin(BeginOf("other", 1));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->rows, kRows - 1);
  EXPECT_GT(again->sequence, begun->sequence);
}

TEST_F(ShardJobsTest, BelongToTheNewestOwner) {
  Open();
  ASSERT_TRUE(Begin(BeginOf("j", 2)).ok());
  ASSERT_TRUE(Step({"c", 1, "j", 2}, Extent()).ok());
  EXPECT_TRUE(absl::IsAborted(Begin(BeginOf("j", 1)).status()));
  EXPECT_TRUE(absl::IsAborted(Step({"c", 1, "j", 1}, Extent()).status()));
  EXPECT_FALSE(End({"c", 1, "j", 1}));
  // A newer one that has not begun it here finds nothing of its own.
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Step({"c", 1, "j", 3}, Extent()).status()));
  // It begins with no step answered.
  ASSERT_TRUE(Begin(BeginOf("j", 3)).ok());
  EXPECT_TRUE(absl::IsAborted(Step({"c", 1, "j", 2}, Extent()).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      Step({"c", 1, "j", 3}, AssignStep()).status()));
  EXPECT_TRUE(End({"c", 1, "j", 3}));
  EXPECT_FALSE(End({"c", 1, "j", 3}));
}

TEST_F(ShardJobsTest, AnswerARepeatedStepWithTheSameBytes) {
  Open();
  const JobBegin begin = BeginOf("j", 1);
  ASSERT_TRUE(Begin(begin).ok());
  const auto extent = Step(begin.job, Extent());
  ASSERT_TRUE(extent.ok()) << extent.status();
  const auto first = Assign(begin.job, extent->extent);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->moved, kRows);
  const auto again = Step(begin.job, AssignStep());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(EncodeKMeansPartial(*first), EncodeKMeansPartial(*again));
  // And its Begin changes nothing of it.
  ASSERT_TRUE(Begin(begin).ok());
  EXPECT_TRUE(Step(begin.job, AssignStep()).ok());
}

TEST_F(ShardJobsTest, RefuseBytesThatAreNoStep) {
  Open();
  ASSERT_TRUE(Begin(BeginOf("j", 1)).ok());
  EXPECT_TRUE(
      absl::IsInvalidArgument(StepBytes({"c", 1, "j", 1}, "").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      StepBytes({"c", 1, "j", 1}, std::string(136, '\x7f')).status()));
}

TEST_F(ShardJobsTest, GoWhenTheirOwnerIsSilent) {
  shard_.options()->jobs = 1;
  Open();
  JobBegin begin = BeginOf("a", 1);
  begin.lease = absl::Milliseconds(20);
  ASSERT_TRUE(Begin(begin).ok());
  // There is room for another once it is gone.
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  absl::Status status;
  do {
    status = Begin(BeginOf("b", 1)).status();
    std::this_thread::yield();
  } while (absl::IsResourceExhausted(status) && absl::Now() < deadline);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(absl::IsFailedPrecondition(Step(begin.job, Extent()).status()));
}

TEST_F(ShardJobsTest, AreBoundedInNumberAndMemory) {
  shard_.options()->jobs = 2;
  Open();
  ASSERT_TRUE(Begin(BeginOf("a", 1)).ok());
  ASSERT_TRUE(Begin(BeginOf("b", 1)).ok());
  const auto third = Begin(BeginOf("c", 1));
  EXPECT_TRUE(absl::IsResourceExhausted(third.status())) << third.status();
  EXPECT_TRUE(End({"c", 1, "a", 1}));
  EXPECT_TRUE(Begin(BeginOf("c", 1)).ok());

  shard_.Close();
  shard_.options()->job_bytes = 1 << 20;
  shard_.Open();
  const auto large = Begin(BeginOf("a", 1));
  EXPECT_TRUE(absl::IsResourceExhausted(large.status()));
  EXPECT_THAT(std::string(large.status().message()), HasSubstr("1048576"));
}

TEST_F(ShardJobsTest, FailForRowsWithoutWeightUnlessTheyAreSkipped) {
  Open();
  JobBegin begin = BeginOf("j", 1);
  begin.weight_attribute = "w";
  const auto failed = Begin(begin);
  EXPECT_TRUE(absl::IsFailedPrecondition(failed.status())) << failed.status();
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("10 rows"));
  begin.skip_missing = true;
  auto begun = Begin(begin);
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->rows, 30);
  EXPECT_EQ(begun->rows_missing, 10);

  begin.job.name = "filtered";
  begin.filter.must.push_back(RangeCondition{"w", {{2, true}}, {}});
  begun = Begin(begin);
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->rows, 20);
  EXPECT_EQ(begun->rows_missing, 0);
  const auto extent = Step(begin.job, Extent());
  ASSERT_TRUE(extent.ok()) << extent.status();
  EXPECT_EQ(extent->extent.rows, 20);
}

TEST_F(ShardJobsTest, StopWithTheirCallAndTakeTheStepAgain) {
  Open();
  const JobBegin begin = BeginOf("j", 1);
  ASSERT_TRUE(Begin(begin).ok());
  const auto extent = Step(begin.job, Extent());
  ASSERT_TRUE(extent.ok());
  auto cancel = std::make_shared<CancelToken>();
  cancel->Cancel();
  EXPECT_TRUE(absl::IsCancelled(
      Step(begin.job, AssignStep(), {absl::InfiniteFuture(), cancel})
          .status()));
  EXPECT_TRUE(Assign(begin.job, extent->extent).ok());
}

TEST_F(ShardJobsTest, WriteLabelsOfRowsThatAreStillThere) {
  Open();
  const JobBegin begin = BeginOf("j", 1);
  ASSERT_TRUE(Begin(begin).ok());
  const auto label = [&] {
    Answer<JobLabelled> answer;
    shard_->LabelRows({begin.job, "cluster"}, {}, answer.done());
    return answer.Wait();
  };
  EXPECT_TRUE(absl::IsFailedPrecondition(label().status()));
  const auto extent = Step(begin.job, Extent());
  ASSERT_TRUE(extent.ok());
  ASSERT_TRUE(Assign(begin.job, extent->extent).ok());
  ASSERT_TRUE(shard_.Write({}, {7}).ok());
  const auto labelled = label();
  ASSERT_TRUE(labelled.ok()) << labelled.status();
  EXPECT_EQ(labelled->labelled, kRows - 1);
  EXPECT_EQ(labelled->missing, 1);
  const auto points = shard_.Get({5});
  ASSERT_TRUE(points.ok());
  EXPECT_EQ(points->points.at(0).attributes.at("cluster"),
            AttributeValue(int64_t{0}));
  // Beside what was there.
  EXPECT_EQ(points->points.at(0).attributes.at("w"),
            AttributeValue(int64_t{1}));
}

TEST_F(ShardJobsTest, EndWithTheirCollection) {
  Open();
  const JobBegin begin = BeginOf("j", 1);
  ASSERT_TRUE(Begin(begin).ok());
  ASSERT_TRUE(Put({{}, 0, "r", 0, "value"}).ok());
  Catalogue none = TestCatalogue(2, {});
  none.next_number = 2;
  const auto dropped = shard_.PutCatalogue(1, none);
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  EXPECT_TRUE(absl::IsNotFound(Step(begin.job, Extent()).status()));
  EXPECT_TRUE(absl::IsNotFound(Put({{}, 0, "r", {}, "value"}).status()));
  // One of the same name is another collection.
  Catalogue next =
      TestCatalogue(3, {TestCollection("c", 2, 2, Metric::kSquaredL2, 4)});
  ASSERT_TRUE(shard_.PutCatalogue(2, next).ok());
  EXPECT_TRUE(absl::IsAborted(Step(begin.job, Extent()).status()));
  const auto records = Read("");
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_TRUE(records->empty());
}

TEST_F(ShardJobsTest, RecordsChangeByCompareAndSetAndSurvive) {
  Open();
  const auto first = Put({{}, 0, "jobs/a", 0, "one"});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsAborted(Put({{}, 0, "jobs/a", 0, "two"}).status()));
  const auto second = Put({{}, 0, "jobs/a", *first, "two"});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_GT(*second, *first);
  EXPECT_TRUE(absl::IsAborted(Put({{}, 0, "jobs/a", *first, {}}).status()));
  ASSERT_TRUE(Put({{}, 0, "jobs/b", {}, std::string("\0x", 2)}).ok());
  ASSERT_TRUE(Put({{}, 0, "k", {}, ""}).ok());

  shard_.Reopen();
  auto records = Read("jobs/");
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->size(), 2U);
  EXPECT_EQ(records->at(0).key, "jobs/a");
  EXPECT_EQ(records->at(0).version, *second);
  EXPECT_EQ(records->at(0).value, "two");
  EXPECT_GE(records->at(0).age_seconds, 0);
  EXPECT_EQ(records->at(1).value, std::string("\0x", 2));

  const auto deleted = Put({{}, 0, "jobs/a", *second, {}});
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(*deleted, 0);
  records = Read("jobs", false);
  ASSERT_TRUE(records.ok());
  ASSERT_EQ(records->size(), 1U);
  EXPECT_EQ(records->at(0).value, "");
}

}  // namespace
}  // namespace coterie
