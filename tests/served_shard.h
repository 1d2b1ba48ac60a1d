// A real shard served over gRPC, and clients of both kinds for it. Test-only;
// clients may be used from many threads.

#ifndef COTERIE_TESTS_SERVED_SHARD_H_
#define COTERIE_TESTS_SERVED_SHARD_H_

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "api/rpc_call.h"
#include "api/shard_messages.h"
#include "api/wire_counters.h"
#include "coordinator/grpc_shard_client.h"
#include "gtest/gtest.h"
#include "server/in_process_shard_client.h"
#include "shard/shard.h"
#include "shard/shard_service.h"

namespace coterie {

class ServedShard {
 public:
  // `listen` is as gRPC takes it; port 0 is one of the system's choice.
  explicit ServedShard(const ShardOptions& options,
                       RpcObserver observer = nullptr,
                       const std::string& listen = "127.0.0.1:0")
      : shard_id_(options.shard_id), cluster_uuid_(options.cluster_uuid) {
    // Held until the process ends: gRPC's own shutdown, at the end of its last
    // user, now and then waits 10 s for its poller.
    static const bool held = (grpc_init(), true);
    EXPECT_TRUE(held);
    auto opened = Shard::Open(options);
    EXPECT_TRUE(opened.ok()) << opened.status();
    shard_ = *std::move(opened);
    RpcOptions rpc;
    rpc.limits = options.limits;
    rpc.observer = std::move(observer);
    rpc.counters = counters;
    service_ = MakeShardService(shard_.get(), std::move(rpc));
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.get());
    builder.SetMaxReceiveMessageSize(
        static_cast<int>(options.limits.message_bytes));
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr) << listen;
    address_ = listen;
    if (absl::EndsWith(listen, ":0")) {
      address_.replace(listen.size() - 1, 1, absl::StrCat(port));
    }
  }
  ~ServedShard() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    shard_->Stop();
  }

  std::shared_ptr<ShardClient> InProcess() const {
    return MakeInProcessShardClient(shard_id_, shard_);
  }
  std::shared_ptr<GrpcShardClient> OverGrpc(
      GrpcShardClientOptions options = {}) const {
    options.cluster_uuid = cluster_uuid_;
    return MakeGrpcShardClient(
        shard_id_, MakeShardChannel(address_, options.message_bytes), address_,
        options);
  }

  // Of the service.
  const std::shared_ptr<WireCounters> counters =
      std::make_shared<WireCounters>();
  Shard& shard() { return *shard_; }
  const std::string& address() const { return address_; }

 private:
  const int32_t shard_id_;
  const std::string cluster_uuid_;
  std::shared_ptr<Shard> shard_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

// Holds one thread of each class of work of a shard until destroyed: all that
// there are, if it has options.threads = 1.
class Blocked {
 public:
  explicit Blocked(Shard& shard) {
    const std::shared_future<void> gate = open_.get_future().share();
    const auto searches = std::make_shared<std::promise<void>>();
    const auto reads = std::make_shared<std::promise<void>>();
    const auto hold = [gate](std::shared_ptr<std::promise<void>> held) {
      return [gate, held = std::move(held)](const auto&) {
        held->set_value();
        gate.wait();
      };
    };
    shard.Search(std::make_shared<SearchRequest>(), {}, hold(searches));
    shard.Count({}, {}, hold(reads));
    searches->get_future().wait();
    reads->get_future().wait();
  }
  ~Blocked() { open_.set_value(); }

 private:
  std::promise<void> open_;
};

}  // namespace coterie

#endif  // COTERIE_TESTS_SERVED_SHARD_H_
