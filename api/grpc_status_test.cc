#include "api/grpc_status.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "absl/strings/cord.h"
#include "api/quoted.h"
#include "api/status_details.h"
#include "api/test_seed.h"
#include "api/v1/points.pb.h"
#include "api/write_outcome.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace coterie {
namespace {

google::rpc::Status Details(const grpc::Status& status) {
  google::rpc::Status rpc;
  EXPECT_TRUE(rpc.ParseFromString(status.error_details()));
  return rpc;
}

grpc::Status WithDetails(const google::rpc::Status& rpc) {
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "m",
                      rpc.SerializeAsString());
}

TEST(GrpcStatus, EveryCodeKeepsItsNumberAndReturns) {
  const grpc::StatusCode kCodes[] = {
      grpc::StatusCode::OK,
      grpc::StatusCode::CANCELLED,
      grpc::StatusCode::UNKNOWN,
      grpc::StatusCode::INVALID_ARGUMENT,
      grpc::StatusCode::DEADLINE_EXCEEDED,
      grpc::StatusCode::NOT_FOUND,
      grpc::StatusCode::ALREADY_EXISTS,
      grpc::StatusCode::PERMISSION_DENIED,
      grpc::StatusCode::RESOURCE_EXHAUSTED,
      grpc::StatusCode::FAILED_PRECONDITION,
      grpc::StatusCode::ABORTED,
      grpc::StatusCode::OUT_OF_RANGE,
      grpc::StatusCode::UNIMPLEMENTED,
      grpc::StatusCode::INTERNAL,
      grpc::StatusCode::UNAVAILABLE,
      grpc::StatusCode::DATA_LOSS,
      grpc::StatusCode::UNAUTHENTICATED,
  };
  const absl::StatusCode kExpected[] = {
      absl::StatusCode::kOk,
      absl::StatusCode::kCancelled,
      absl::StatusCode::kUnknown,
      absl::StatusCode::kInvalidArgument,
      absl::StatusCode::kDeadlineExceeded,
      absl::StatusCode::kNotFound,
      absl::StatusCode::kAlreadyExists,
      absl::StatusCode::kPermissionDenied,
      absl::StatusCode::kResourceExhausted,
      absl::StatusCode::kFailedPrecondition,
      absl::StatusCode::kAborted,
      absl::StatusCode::kOutOfRange,
      absl::StatusCode::kUnimplemented,
      absl::StatusCode::kInternal,
      absl::StatusCode::kUnavailable,
      absl::StatusCode::kDataLoss,
      absl::StatusCode::kUnauthenticated,
  };
  static_assert(std::size(kCodes) == 17 && std::size(kExpected) == 17);
  for (size_t i = 0; i < std::size(kCodes); ++i) {
    const absl::Status status(kExpected[i], i == 0 ? "" : "why");
    const grpc::Status wire = ToGrpcStatus(status);
    EXPECT_EQ(wire.error_code(), kCodes[i]);
    EXPECT_EQ(wire.error_message(), i == 0 ? "" : "why");
    EXPECT_EQ(wire.error_details(), "");
    EXPECT_EQ(FromGrpcStatus(wire), status);

    // And with every detail.
    const absl::Status rich = i == 0 ? status : [&] {
      absl::Status s(kExpected[i], "points[1].id: why");
      AttachField(&s, "points[1].id");
      AttachRetryAfter(&s, absl::Nanoseconds(1500000001));
      return WithShard(s, 2);
    }();
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(rich)), rich) << rich;
  }
}

TEST(GrpcStatus, UnknownCodesBecomeUnknown) {
  // As far as the enum's range goes: gRPC maps all others itself.
  for (const int code : {-1, 17, 31}) {
    const absl::Status status =
        FromGrpcStatus(grpc::Status(static_cast<grpc::StatusCode>(code), "m"));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnknown) << code;
    EXPECT_EQ(status.message(), "m");
  }
}

TEST(GrpcStatus, FieldTravelsAsBadRequest) {
  const grpc::Status wire = ToGrpcStatus(InvalidField("k", "0 is too small"));
  const google::rpc::Status rpc = Details(wire);
  EXPECT_EQ(rpc.code(), 3);
  EXPECT_EQ(rpc.message(), "k: 0 is too small");
  ASSERT_EQ(rpc.details_size(), 1);
  EXPECT_EQ(rpc.details(0).type_url(),
            "type.googleapis.com/google.rpc.BadRequest");
  google::rpc::BadRequest bad_request;
  ASSERT_TRUE(rpc.details(0).UnpackTo(&bad_request));
  ASSERT_EQ(bad_request.field_violations_size(), 1);
  EXPECT_EQ(bad_request.field_violations(0).field(), "k");
  EXPECT_EQ(bad_request.field_violations(0).description(), "0 is too small");
}

TEST(GrpcStatus, ShardTravelsAsErrorInfo) {
  const google::rpc::Status rpc =
      Details(ToGrpcStatus(WithShard(absl::UnavailableError("no answer"), 2)));
  ASSERT_EQ(rpc.details_size(), 1);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(rpc.details(0).UnpackTo(&info));
  EXPECT_EQ(info.domain(), "coterie");
  EXPECT_EQ(info.reason(), "UNAVAILABLE");
  ASSERT_EQ(info.metadata().size(), 1U);
  EXPECT_EQ(info.metadata().at("shard"), "2");
}

TEST(GrpcStatus, DelayTravelsAsRetryInfo) {
  const google::rpc::Status rpc =
      Details(ToGrpcStatus(Overloaded("full", absl::Milliseconds(2500))));
  ASSERT_EQ(rpc.details_size(), 1);
  google::rpc::RetryInfo info;
  ASSERT_TRUE(rpc.details(0).UnpackTo(&info));
  EXPECT_EQ(info.retry_delay().seconds(), 2);
  EXPECT_EQ(info.retry_delay().nanos(), 500000000);
}

TEST(GrpcStatus, ForeignPayloadsStayBehind) {
  absl::Status status = absl::InternalError("m");
  status.SetPayload("type.googleapis.com/x", absl::Cord("secret"));
  EXPECT_EQ(ToGrpcStatus(status).error_details(), "");
}

TEST(GrpcStatus, LongTextIsCutToFitTheHeaders) {
  // Worst case: characters of three header bytes a byte, message and field.
  std::string text;
  while (text.size() < 100000) text += "\xE4\xB8\xAD";
  absl::Status status = WithShard(InvalidField(text, text), 7);
  AttachRetryAfter(&status, absl::Seconds(1));
  const grpc::Status wire = ToGrpcStatus(status);
  const size_t message = 3 * wire.error_message().size();
  const size_t details = wire.error_details().size() * 4 / 3;
  EXPECT_LT(message + details, 8000U);
  EXPECT_TRUE(IsValidUtf8(wire.error_message()));
  EXPECT_EQ(wire.error_message().substr(wire.error_message().size() - 3),
            "...");
  EXPECT_EQ(ShardOf(FromGrpcStatus(wire)), 7);
  EXPECT_EQ(Details(wire).details_size(), 3);
}

TEST(GrpcStatus, TextThatIsNotUtf8IsMadeSo) {
  // Else proto3 parsers would refuse the details as a whole.
  const grpc::Status wire =
      ToGrpcStatus(InvalidField("a[\xFF]", "\xC3\x28 is odd"));
  EXPECT_EQ(wire.error_message(), "a[?]: ?( is odd");
  EXPECT_EQ(FieldOf(FromGrpcStatus(wire)), "a[?]");
}

TEST(GrpcStatus, ForeignDetailsAreDropped) {
  google::rpc::Status rpc;
  google::rpc::ErrorInfo info;
  info.set_domain("example.org");
  (*info.mutable_metadata())["shard"] = "3";
  rpc.add_details()->PackFrom(info);
  google::rpc::Help help;
  help.add_links()->set_url("http://example.org");
  rpc.add_details()->PackFrom(help);
  rpc.add_details()->PackFrom(google::rpc::BadRequest());
  rpc.add_details()->PackFrom(google::rpc::RetryInfo());
  EXPECT_EQ(FromGrpcStatus(WithDetails(rpc)), absl::UnavailableError("m"));
}

TEST(GrpcStatus, ValuesThatMakeNoSenseAreDropped) {
  for (const char* shard : {"", "x", "-1", "99999999999", "1.5"}) {
    google::rpc::ErrorInfo info;
    info.set_domain("coterie");
    (*info.mutable_metadata())["shard"] = shard;
    google::rpc::Status rpc;
    rpc.add_details()->PackFrom(info);
    EXPECT_EQ(FromGrpcStatus(WithDetails(rpc)), absl::UnavailableError("m"))
        << shard;
  }
  const std::pair<int64_t, int32_t> kDelays[] = {
      {-1, 0},
      {0, -1},
      {0, 1000000000},
      {std::numeric_limits<int64_t>::min(), 0}};
  for (const auto& [seconds, nanos] : kDelays) {
    google::rpc::RetryInfo info;
    info.mutable_retry_delay()->set_seconds(seconds);
    info.mutable_retry_delay()->set_nanos(nanos);
    google::rpc::Status rpc;
    rpc.add_details()->PackFrom(info);
    EXPECT_EQ(RetryAfterOf(FromGrpcStatus(WithDetails(rpc))), std::nullopt);
  }
}

TEST(GrpcStatus, HugeDelayIsCut) {
  google::rpc::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(std::numeric_limits<int64_t>::max());
  google::rpc::Status rpc;
  rpc.add_details()->PackFrom(info);
  const auto delay = RetryAfterOf(FromGrpcStatus(WithDetails(rpc)));
  ASSERT_TRUE(delay.has_value());
  EXPECT_GT(*delay, absl::Hours(24 * 365));
}

WriteOutcome TwoParts() {
  WriteOutcome outcome;
  outcome.parts.push_back({0, 12, {1, 5, 900}, absl::StatusCode::kOk});
  outcome.parts.push_back({3, 4, {2}, absl::StatusCode::kUnavailable});
  return outcome;
}

TEST(GrpcStatus, WhatAFailedWriteDidReturns) {
  absl::Status status = WithShard(absl::UnavailableError("gone"), 3);
  AttachOutcome(&status, TwoParts());
  const absl::Status again = FromGrpcStatus(ToGrpcStatus(status));
  EXPECT_EQ(again, status);
  EXPECT_EQ(OutcomeOf(again), TwoParts());
  EXPECT_EQ(OutcomeOf(absl::UnavailableError("gone")), std::nullopt);
}

TEST(GrpcStatus, AnOutcomeTooLongKeepsItsFailedParts) {
  WriteOutcome outcome;
  for (int32_t shard = 0; shard < 1000; ++shard) {
    outcome.parts.push_back({shard, 1, {shard}, absl::StatusCode::kOk});
  }
  outcome.parts[777].code = absl::StatusCode::kUnavailable;
  absl::Status status = absl::UnavailableError("gone");
  AttachOutcome(&status, outcome);
  const grpc::Status wire = ToGrpcStatus(status);
  EXPECT_LT(wire.error_details().size(), 1400u);
  v1::WriteOutcome message;
  ASSERT_TRUE(Details(wire).details(0).UnpackTo(&message));
  EXPECT_GT(message.parts_size(), 50);
  EXPECT_EQ(message.parts_size() + message.parts_left_out(), 1000);
  int failed = 0;
  for (const v1::WriteOutcome::Part& part : message.parts()) {
    EXPECT_EQ(part.slots_size(), 0) << "left out of all";
    failed += part.code() != 0 ? 1 : 0;
  }
  EXPECT_EQ(failed, 1);
}

TEST(RpcStatus, IsTheSameAsAMessage) {
  absl::Status status = WithShard(Overloaded("full", absl::Seconds(2)), 1);
  AttachOutcome(&status, TwoParts());
  EXPECT_EQ(FromRpcStatus(ToRpcStatus(status)), status);
  EXPECT_EQ(Details(ToGrpcStatus(status)).SerializeAsString(),
            ToRpcStatus(status).SerializeAsString());
  EXPECT_TRUE(FromRpcStatus(ToRpcStatus(absl::OkStatus())).ok());
}

TEST(GrpcStatus, BrokenDetailsNeverCrashNorChangeCodeOrMessage) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  absl::Status rich = WithShard(InvalidField("queries[0]", "bad"), 3);
  AttachRetryAfter(&rich, absl::Seconds(1));
  AttachOutcome(&rich, TwoParts());
  const std::string good = ToGrpcStatus(rich).error_details();
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good;
    for (uint64_t n = 1 + random() % 4; n > 0; --n) {
      const size_t at = random() % bad.size();
      switch (random() % 3) {
        case 0:
          bad[at] = static_cast<char>(random());
          break;
        case 1:
          bad.insert(at, 1, static_cast<char>(random()));
          break;
        default:
          if (bad.size() > 1) bad.erase(at, 1 + random() % 8);
          if (bad.empty()) bad = "\xFF";
      }
    }
    const absl::Status status = FromGrpcStatus(
        grpc::Status(grpc::StatusCode::NOT_FOUND, "message", bad));
    ASSERT_EQ(status.code(), absl::StatusCode::kNotFound);
    ASSERT_EQ(status.message(), "message");
    const auto shard = ShardOf(status);
    ASSERT_TRUE(!shard.has_value() || *shard >= 0);
    const auto delay = RetryAfterOf(status);
    ASSERT_TRUE(!delay.has_value() || *delay >= absl::ZeroDuration());
  }
}

}  // namespace
}  // namespace coterie
