#include "api/job_convert.h"

#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

JobBegin ABegin() {
  JobBegin begin;
  begin.job = {"c", 7, "j", 9};
  begin.filter.must.push_back(HasAttributeCondition{"a"});
  begin.weight_attribute = "w";
  begin.skip_missing = true;
  begin.lease = absl::Milliseconds(1500);
  begin.threads = 3;
  begin.row_bytes = 40;
  begin.resume = true;
  return begin;
}

template <typename Request>
void ExpectRefused(const Request& request, const std::string& field) {
  const auto decoded = DecodeShardRequest(request, Limits());
  EXPECT_TRUE(absl::IsInvalidArgument(decoded.status())) << field;
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr(field));
}

TEST(JobConvert, BeginningsReturnUnchanged) {
  v1::BeginJobRequest request;
  EncodeShardRequest(ABegin(), &request);
  const auto begin = DecodeShardRequest(request, Limits());
  ASSERT_TRUE(begin.ok()) << begin.status();
  const auto& [job, kind, filter, weight, label, skip, lease, threads,
               row_bytes, resume] = *begin;
  EXPECT_EQ(job, ABegin().job);
  EXPECT_EQ(kind, JobKind::kKMeans);
  ASSERT_EQ(filter.must.size(), 1U);
  EXPECT_EQ(weight, "w");
  EXPECT_EQ(label, "");
  EXPECT_TRUE(skip);
  EXPECT_EQ(lease, absl::Milliseconds(1500));
  EXPECT_EQ(threads, 3);
  EXPECT_EQ(row_bytes, 40);
  EXPECT_TRUE(resume);

  v1::BeginJobResponse response;
  EncodeShardReply(JobBegun{1, 2, 3}, &response);
  const auto begun = DecodeShardReply(response);
  ASSERT_TRUE(begun.ok());
  EXPECT_EQ(begun->sequence, 1);
  EXPECT_EQ(begun->rows, 2);
  EXPECT_EQ(begun->rows_missing, 3);
  response.set_rows(-1);
  EXPECT_TRUE(absl::IsInternal(DecodeShardReply(response).status()));
}

TEST(JobConvert, TrainingNeedsALabelAndNothingElseHasOne) {
  JobBegin sgd = ABegin();
  sgd.kind = JobKind::kSgd;
  sgd.weight_attribute.clear();
  sgd.label_attribute = "y";
  v1::BeginJobRequest request;
  EncodeShardRequest(sgd, &request);
  const auto begin = DecodeShardRequest(request, Limits());
  ASSERT_TRUE(begin.ok()) << begin.status();
  EXPECT_EQ(begin->kind, JobKind::kSgd);
  EXPECT_EQ(begin->label_attribute, "y");
  auto bad = request;
  bad.set_weight_attribute("w");
  ExpectRefused(bad, "label_attribute");
  bad = request;
  bad.clear_label_attribute();
  ExpectRefused(bad, "label_attribute");
  bad = request;
  bad.set_kind(v1::KMEANS);
  ExpectRefused(bad, "label_attribute");
}

TEST(JobConvert, BeginningsThatMakeNoSenseAreRefusedByName) {
  v1::BeginJobRequest good;
  EncodeShardRequest(ABegin(), &good);
  auto bad = good;
  bad.mutable_job()->clear_collection();
  ExpectRefused(bad, "collection");
  bad = good;
  bad.mutable_job()->clear_name();
  ExpectRefused(bad, "job.name");
  bad.mutable_job()->set_name(std::string(256, 'n'));
  ExpectRefused(bad, "job.name");
  bad = good;
  bad.mutable_job()->set_owner_epoch(0);
  ExpectRefused(bad, "job.owner_epoch");
  bad = good;
  bad.clear_kind();
  ExpectRefused(bad, "kind");
  bad = good;
  for (const double seconds :
       {0.0, -1.0, 1e9, std::numeric_limits<double>::quiet_NaN()}) {
    bad.set_lease_seconds(seconds);
    ExpectRefused(bad, "lease_seconds");
  }
  bad = good;
  bad.set_threads(-1);
  ExpectRefused(bad, "threads");
  bad = good;
  bad.set_row_bytes((1 << 20) + 1);
  ExpectRefused(bad, "row_bytes");
}

TEST(JobConvert, StepsCarryExactlyTheirBytes) {
  const std::string bytes("\0step\xff", 6);
  v1::JobStepRequest request;
  EncodeShardRequest(
      JobStep{{"c", 0, "j", 1}, std::make_shared<const std::string>(bytes)},
      &request);
  const auto step = DecodeShardRequest(request, Limits());
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(*step->step, bytes);
  v1::JobStepResponse response;
  EncodeShardReply(JobAnswer{bytes, 0.25, {}}, &response);
  auto answer = DecodeShardReply(response);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->partial, bytes);
  EXPECT_EQ(answer->work_seconds, 0.25);
  response.set_work_seconds(-1);
  EXPECT_TRUE(absl::IsInternal(DecodeShardReply(response).status()));
}

TEST(JobConvert, LabelsAndEndsReturnUnchanged) {
  v1::LabelRowsRequest label;
  EncodeShardRequest(JobLabel{{"c", 3, "j", 1}, "cluster"}, &label);
  const auto decoded = DecodeShardRequest(label, Limits());
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->attribute, "cluster");
  EXPECT_EQ(decoded->job, (JobRef{"c", 3, "j", 1}));
  label.clear_attribute();
  ExpectRefused(label, "attribute");
  v1::LabelRowsResponse labelled;
  EncodeShardReply(JobLabelled{5, 6}, &labelled);
  const auto told = DecodeShardReply(labelled);
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(told->labelled, 5);
  EXPECT_EQ(told->missing, 6);
  v1::EndJobResponse ended;
  EncodeShardReply(true, &ended);
  EXPECT_TRUE(*DecodeShardReply(ended));
}

TEST(JobConvert, RecordsReturnUnchanged) {
  RecordPut put{"c", 3, "k", 5, std::string("\0v", 2)};
  v1::PutRecordRequest request;
  EncodeShardRequest(put, &request);
  auto decoded = DecodeShardRequest(request, Limits());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const auto& [collection, number, key, expected, value] = *decoded;
  EXPECT_EQ(collection, "c");
  EXPECT_EQ(number, 3U);
  EXPECT_EQ(key, "k");
  EXPECT_EQ(expected, 5);
  EXPECT_EQ(value, put.value);
  request.clear_value();
  request.clear_expected_version();
  decoded = DecodeShardRequest(request, Limits());
  ASSERT_TRUE(decoded.ok());
  EXPECT_FALSE(decoded->value.has_value());
  EXPECT_FALSE(decoded->expected_version.has_value());
  request.set_value(std::string((1 << 20) + 1, 'v'));
  ExpectRefused(request, "value");
  request.clear_value();
  request.set_expected_version(-1);
  ExpectRefused(request, "expected_version");

  const RecordsRequest asked{"c", 0, "p/", true};
  v1::ReadRecordsResponse response;
  EncodeShardReply({{"p/a", 1, "x", 0.5}, {"p/b", 2, "", 0}}, &response);
  auto records = DecodeShardReply(response, asked);
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->size(), 2U);
  EXPECT_EQ(records->at(0).value, "x");
  EXPECT_EQ(records->at(0).age_seconds, 0.5);
  for (const auto& spoil : std::vector<void (*)(v1::ReadRecordsResponse*)>{
           [](v1::ReadRecordsResponse* r) {
             r->mutable_records(0)->set_key("q");
           },
           [](v1::ReadRecordsResponse* r) {
             r->mutable_records(1)->set_key("p/a");
           },
           [](v1::ReadRecordsResponse* r) {
             r->mutable_records(0)->set_version(0);
           },
           [](v1::ReadRecordsResponse* r) {
             r->mutable_records(0)->set_age_seconds(-1);
           }}) {
    v1::ReadRecordsResponse spoilt = response;
    spoil(&spoilt);
    EXPECT_TRUE(absl::IsInternal(DecodeShardReply(spoilt, asked).status()));
  }
}

}  // namespace
}  // namespace coterie
