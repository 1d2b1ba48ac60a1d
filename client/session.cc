#include "client/session.h"

#include <google/protobuf/util/json_util.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/printable.h"

namespace coterie {
namespace {

constexpr int kMaxMessageBytes = 16 << 20;
// Pings only while a call is under way, and far less often than servers allow
// (coteried every 10 s): enough to notice a peer that vanished.
constexpr int kKeepaliveMs = 60'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
// gRPC's own grows to two minutes: longer than an import waits for a server
// that is back after one.
constexpr int kMaxReconnectMs = 2'000;

absl::Status CheckAddress(absl::string_view server) {
  if (absl::StartsWith(server, "unix:") && server.size() > 5) {
    return absl::OkStatus();
  }
  const size_t colon = server.rfind(':');
  const absl::string_view host = server.substr(0, colon);
  int port = 0;
  const bool bare_v6 =
      absl::StrContains(host, ':') && !absl::StartsWith(host, "[");
  if (colon == absl::string_view::npos || host.empty() || bare_v6 ||
      !absl::SimpleAtoi(server.substr(colon + 1), &port) || port < 1 ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("server address '", Printable(server, 60),
                     "': expected HOST:PORT, [V6]:PORT or unix:PATH"));
  }
  return absl::OkStatus();
}

bool IsLoopback(absl::string_view server) {
  return absl::StartsWith(server, "127.") ||
         absl::StartsWith(server, "localhost:") ||
         absl::StartsWith(server, "[::1]:") ||
         absl::StartsWith(server, "unix:");
}

}  // namespace

absl::StatusOr<Stubs> Connect(const std::string& server) {
  absl::Status address = CheckAddress(server);
  if (!address.ok()) return address;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  if (IsLoopback(server)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const std::shared_ptr<grpc::Channel> channel = grpc::CreateCustomChannel(
      server, grpc::InsecureChannelCredentials(), arguments);
  Stubs stubs;
  stubs.collections = v1::CollectionService::NewStub(channel);
  stubs.points = v1::PointService::NewStub(channel);
  stubs.search = v1::SearchService::NewStub(channel);
  stubs.clusterings = v1::ClusteringService::NewStub(channel);
  stubs.training = v1::TrainingService::NewStub(channel);
  stubs.jobs = v1::JobService::NewStub(channel);
  stubs.cluster = v1::ClusterService::NewStub(channel);
  stubs.health = grpc::health::v1::Health::NewStub(channel);
  return stubs;
}

void Session::Prepare(grpc::ClientContext* context) const {
  const absl::Duration timeout = options_.timeout.value_or(default_timeout_);
  context->set_deadline(std::chrono::system_clock::now() +
                        absl::ToChronoNanoseconds(timeout));
}

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  std::string json;
  // Fails only for messages with google.protobuf.Any; there are none.
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok())
    return absl::StrCat("{\"error\": \"", status.ToString(), "\"}");
  while (!json.empty() && json.back() == '\n') json.pop_back();
  return json;
}

void Session::PrintJson(const google::protobuf::Message& message) const {
  out() << ToJson(message) << '\n';
}

}  // namespace coterie
