// One invocation's connection to a server: stubs, deadline, output.
//
// Not thread-safe, except that Call may be used from several threads at once.

#ifndef COTERIE_CLIENT_SESSION_H_
#define COTERIE_CLIENT_SESSION_H_

#include <google/protobuf/message.h>
#include <grpcpp/client_context.h>

#include <istream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "api/grpc_status.h"
#include "api/v1/cluster.grpc.pb.h"
#include "api/v1/clustering.grpc.pb.h"
#include "api/v1/collections.grpc.pb.h"
#include "api/v1/jobs.grpc.pb.h"
#include "api/v1/points.grpc.pb.h"
#include "api/v1/search.grpc.pb.h"
#include "api/v1/training.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace coterie {

// Where a command reads and writes. The streams outlive whoever uses it.
struct Terminal {
  std::istream* in = nullptr;
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  bool in_is_terminal = false;
  bool err_is_terminal = false;
  int columns = 80;
};

// The services a command may call.
struct Stubs {
  std::unique_ptr<v1::CollectionService::StubInterface> collections;
  std::unique_ptr<v1::PointService::StubInterface> points;
  std::unique_ptr<v1::SearchService::StubInterface> search;
  std::unique_ptr<v1::ClusteringService::StubInterface> clusterings;
  std::unique_ptr<v1::TrainingService::StubInterface> training;
  std::unique_ptr<v1::JobService::StubInterface> jobs;
  std::unique_ptr<v1::ClusterService::StubInterface> cluster;
  std::unique_ptr<grpc::health::v1::Health::StubInterface> health;
};

// Stubs on one channel to HOST:PORT, [V6]:PORT or unix:PATH. Messages of up to
// 16 MiB both ways. Connects at the first call; connections to this machine
// bypass HTTP proxies. INVALID_ARGUMENT if the address has no such form.
absl::StatusOr<Stubs> Connect(const std::string& server);

class Session {
 public:
  struct Options {
    std::string server;
    // Of each call; unset: the command's own default.
    std::optional<absl::Duration> timeout;
    // Print replies as JSON.
    bool json = false;
  };

  Session(Options options, const Terminal& terminal, Stubs stubs)
      : options_(std::move(options)),
        terminal_(terminal),
        stubs_(std::move(stubs)) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const std::string& server() const { return options_.server; }
  bool json() const { return options_.json; }
  const Terminal& terminal() const { return terminal_; }
  std::ostream& out() const { return *terminal_.out; }
  std::ostream& err() const { return *terminal_.err; }
  const Stubs& stubs() const { return stubs_; }

  // Sets the deadline of a call that starts now.
  void Prepare(grpc::ClientContext* context) const;

  // The default deadline of a call when the user gave none.
  void set_default_timeout(absl::Duration timeout) {
    default_timeout_ = timeout;
  }

  // One unary call. Errors carry the server's details.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(
      const std::unique_ptr<Stub>& stub,
      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                   Response*),
      const Request& request) const {
    grpc::ClientContext context;
    Prepare(&context);
    Response response;
    const grpc::Status status = ((*stub).*method)(&context, request, &response);
    if (!status.ok()) return FromGrpcStatus(status);
    return response;
  }

  // `message` as JSON with a final newline: 64-bit numbers as strings, bytes
  // in base64, and fields that are zero written out.
  void PrintJson(const google::protobuf::Message& message) const;

 private:
  const Options options_;
  const Terminal terminal_;
  const Stubs stubs_;
  absl::Duration default_timeout_ = absl::Seconds(30);
};

// As Session::PrintJson, to a string without the newline.
std::string ToJson(const google::protobuf::Message& message);

}  // namespace coterie

#endif  // COTERIE_CLIENT_SESSION_H_
