#include "client/errors.h"

#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "api/status_details.h"
#include "client/printable.h"

namespace coterie {
namespace {

constexpr absl::string_view kUsageUrl = "coterie.client/usage";
constexpr absl::string_view kHintUrl = "coterie.client/hint";
constexpr int64_t kMaxLine = 2000;

std::string UnavailableHint(const absl::Status& status,
                            absl::string_view server) {
  if (ShardOf(status).has_value()) {
    return "Retry; the state of each shard: coterie describe";
  }
  const bool usual = server == "127.0.0.1:7600";
  return absl::StrCat("Is coteried running at ", server,
                      "? Start it with: coteried",
                      usual ? "" : absl::StrCat(" --listen=", server),
                      "; or name another with --server HOST:PORT");
}

std::string BusyHint(const absl::Status& status) {
  const std::optional<absl::Duration> delay = RetryAfterOf(status);
  if (!delay.has_value()) return "Try again later, or ask for less at once";
  return absl::StrCat("Try again in ", absl::FormatDuration(*delay),
                      ", or ask for less at once");
}

std::string DefaultHint(const absl::Status& status, absl::string_view server) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return "What there is: coterie describe; of a collection: coterie "
             "clusterings, models or jobs COLLECTION";
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return "Mend what is named above; limits in force: coterie describe";
    case absl::StatusCode::kAlreadyExists:
      return "Use it as it is, or drop it first: coterie drop NAME";
    case absl::StatusCode::kFailedPrecondition:
      return "See the state of the service: coterie describe";
    case absl::StatusCode::kUnavailable:
      return UnavailableHint(status, server);
    case absl::StatusCode::kDeadlineExceeded:
      return "Allow more time: --timeout 2m; or see what is slow: coterie "
             "describe";
    case absl::StatusCode::kResourceExhausted:
      return BusyHint(status);
    case absl::StatusCode::kUnimplemented:
      return absl::StrCat(server,
                          " does not serve this call: is it a shard, or an "
                          "older release? Call a coordinator: --server "
                          "HOST:PORT");
    default:
      return absl::StrCat("Look into the log of coteried at ", server);
  }
}

std::optional<std::string> Payload(const absl::Status& status,
                                   absl::string_view url) {
  const absl::optional<absl::Cord> payload = status.GetPayload(url);
  if (!payload.has_value()) return std::nullopt;
  return std::string(*payload);
}

std::string WhatHappened(const absl::Status& status) {
  std::string line(status.message());
  if (line.empty()) line = "no reason given";
  const std::optional<std::string> field = FieldOf(status);
  if (field.has_value() && !absl::StrContains(line, *field)) {
    absl::StrAppend(&line, " [field ", *field, "]");
  }
  const std::optional<int32_t> shard = ShardOf(status);
  if (shard.has_value() &&
      !absl::StrContains(line, absl::StrCat("shard ", *shard))) {
    absl::StrAppend(&line, " [shard ", *shard, "]");
  }
  if (!status.GetPayload(kUsageUrl).has_value()) {
    absl::StrAppend(&line, " (", absl::StatusCodeToString(status.code()), ")");
  }
  return line;
}

}  // namespace

std::string ExitCodeHelp() {
  return
      R"(Exit codes:
  0  done
  1  the command line is wrong; nothing was sent
  2  not found: no such collection, id or text
  3  invalid input: refused by the server, exists already, or a bad file
  4  the server or a shard did not answer, or not in time
  5  the server is overloaded, or the reply is over its limit
  6  anything else)";
}

absl::Status UsageError(absl::string_view message, absl::string_view hint) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kUsageUrl, absl::Cord());
  status.SetPayload(kHintUrl, absl::Cord(hint));
  return status;
}

absl::Status WithHint(absl::Status status, absl::string_view hint) {
  if (!status.ok() && !status.GetPayload(kHintUrl).has_value()) {
    status.SetPayload(kHintUrl, absl::Cord(hint));
  }
  return status;
}

absl::Status WithMessage(const absl::Status& status,
                         absl::string_view message) {
  absl::Status renamed(status.code(), message);
  status.ForEachPayload(
      [&renamed](absl::string_view url, const absl::Cord& payload) {
        renamed.SetPayload(url, payload);
      });
  return renamed;
}

ExitCode ExitCodeOf(const absl::Status& status) {
  if (status.GetPayload(kUsageUrl).has_value()) return kExitUsage;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
      return kExitInvalid;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitUnreachable;
    case absl::StatusCode::kResourceExhausted:
      return kExitOverloaded;
    default:
      return kExitOther;
  }
}

void ReportError(const absl::Status& status, absl::string_view server,
                 std::ostream& err) {
  const std::string hint =
      Payload(status, kHintUrl).value_or(DefaultHint(status, server));
  err << "coterie: " << Printable(WhatHappened(status), kMaxLine) << "\n  "
      << Printable(hint, kMaxLine) << std::endl;
}

}  // namespace coterie
