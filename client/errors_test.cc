#include "client/errors.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "api/status_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

std::string Report(const absl::Status& status) {
  std::ostringstream err;
  ReportError(status, "127.0.0.1:7600", err);
  const std::string text = err.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  return text;
}

TEST(ExitCodeOf, IsTheDocumentedTable) {
  const struct {
    absl::StatusCode code;
    int expected;
  } cases[] = {
      {absl::StatusCode::kOk, 0},
      {absl::StatusCode::kNotFound, 2},
      {absl::StatusCode::kInvalidArgument, 3},
      {absl::StatusCode::kOutOfRange, 3},
      {absl::StatusCode::kAlreadyExists, 3},
      {absl::StatusCode::kFailedPrecondition, 3},
      {absl::StatusCode::kUnavailable, 4},
      {absl::StatusCode::kDeadlineExceeded, 4},
      {absl::StatusCode::kResourceExhausted, 5},
      {absl::StatusCode::kInternal, 6},
      {absl::StatusCode::kUnimplemented, 6},
      {absl::StatusCode::kCancelled, 6},
      {absl::StatusCode::kUnknown, 6},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(ExitCodeOf(absl::Status(c.code, "x")), c.expected)
        << absl::StatusCodeToString(c.code);
  }
  EXPECT_EQ(ExitCodeOf(UsageError("x", "y")), 1);
  EXPECT_EQ(ExitCodeOf(WithHint(absl::NotFoundError("x"), "y")), 2);
}

TEST(ReportError, SaysWhatHappenedAndWhatToDo) {
  EXPECT_EQ(Report(WithHint(absl::NotFoundError("no \"words\""), "Create it")),
            "coterie: no \"words\" (NOT_FOUND)\n  Create it\n");
  EXPECT_EQ(Report(UsageError("--dim is required", "See: help")),
            "coterie: --dim is required\n  See: help\n");
}

TEST(ReportError, NamesFieldAndShardOnce) {
  // The message has them already.
  EXPECT_THAT(Report(InvalidField("queries[0].k", "is 0")),
              HasSubstr("coterie: queries[0].k: is 0 (INVALID"));
  EXPECT_THAT(Report(WithShard(absl::UnavailableError("gone"), 2)),
              HasSubstr("coterie: shard 2: gone (UNAVAILABLE)"));
  // The message lost them.
  EXPECT_THAT(Report(WithMessage(InvalidField("points[3]", "x"), "refused")),
              HasSubstr("coterie: refused [field points[3]] (INVALID"));
  EXPECT_THAT(
      Report(WithMessage(WithShard(absl::UnavailableError("x"), 2), "gone")),
      HasSubstr("coterie: gone [shard 2] (UNAVAILABLE)"));
}

TEST(ReportError, AdvisesByCode) {
  EXPECT_THAT(Report(absl::UnavailableError("refused")),
              HasSubstr("Is coteried running at 127.0.0.1:7600? Start it "
                        "with: coteried;"));
  EXPECT_THAT(Report(WithShard(absl::UnavailableError("x"), 1)),
              HasSubstr("coterie describe"));
  EXPECT_THAT(Report(Overloaded("queue full", absl::Milliseconds(250))),
              HasSubstr("Try again in 250ms"));
  EXPECT_THAT(Report(absl::DeadlineExceededError("x")), HasSubstr("--timeout"));
  EXPECT_THAT(Report(absl::UnimplementedError("")), HasSubstr("coordinator"));
  EXPECT_THAT(Report(absl::InternalError("")), HasSubstr("no reason given"));
}

TEST(ReportError, KeepsTheServersTextOnItsLine) {
  EXPECT_THAT(Report(absl::InternalError("a\nb\x1b[2J")),
              HasSubstr("a\\nb\\x1b[2J"));
}

TEST(WithHint, KeepsTheFirstAdvice) {
  const absl::Status status =
      WithHint(WithHint(absl::NotFoundError("x"), "first"), "second");
  EXPECT_THAT(Report(status), HasSubstr("  first\n"));
  EXPECT_TRUE(WithHint(absl::OkStatus(), "x").ok());
}

TEST(WithMessage, KeepsCodeAndDetails) {
  const absl::Status status =
      WithMessage(Overloaded("busy", absl::Seconds(3)), "very busy");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "very busy");
  EXPECT_EQ(RetryAfterOf(status), absl::Seconds(3));
}

}  // namespace
}  // namespace coterie
