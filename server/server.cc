#include "server/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/status_details.h"
#include "coordinator/coordinator.h"
#include "coordinator/services.h"
#include "server/data_dir.h"
#include "server/in_process_shard_client.h"
#include "shard/shard.h"

namespace coterie {
namespace {

constexpr char kSearchServiceName[] = "coterie.v1.SearchService";

int32_t ThreadsPerShard(const ServerOptions& options, int32_t shards) {
  if (options.threads_per_shard > 0) {
    return options.threads_per_shard;
  }
  const int32_t cores = std::max<int32_t>(
      1, static_cast<int32_t>(std::thread::hardware_concurrency()));
  return std::max(1, cores / shards);
}

ShardOptions OptionsOfShard(const ServerOptions& options, const DataDir& dir,
                            int32_t shard_id) {
  ShardOptions shard;
  shard.shard_id = shard_id;
  shard.shards_total = dir.shards();
  shard.cluster_uuid = dir.cluster_uuid();
  shard.path = dir.ShardPath(shard_id);
  shard.limits = options.limits;
  shard.threads = ThreadsPerShard(options, dir.shards());
  shard.queue_capacity = options.queue_capacity;
  shard.write_queue_bytes = options.write_queue_bytes;
  return shard;
}

// Loading is bound by disk and by copying rows: as many at once as there are
// cores.
absl::StatusOr<std::vector<std::shared_ptr<Shard>>> OpenShards(
    const ServerOptions& options, const DataDir& dir) {
  const int32_t n = dir.shards();
  std::vector<std::shared_ptr<Shard>> shards(static_cast<size_t>(n));
  std::vector<absl::Status> results(static_cast<size_t>(n));
  std::atomic<int32_t> next{0};
  auto work = [&] {
    for (int32_t i = next++; i < n; i = next++) {
      auto shard = Shard::Open(OptionsOfShard(options, dir, i));
      results[static_cast<size_t>(i)] = WithShard(shard.status(), i);
      if (shard.ok()) {
        shards[static_cast<size_t>(i)] = *std::move(shard);
      }
    }
  };
  const auto workers =
      std::min<uint32_t>(static_cast<uint32_t>(n),
                         std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (uint32_t t = 1; t < workers; ++t) {
    threads.emplace_back(work);
  }
  work();
  for (std::thread& t : threads) {
    t.join();
  }
  for (const absl::Status& s : results) {
    if (!s.ok()) {
      return s;
    }
  }
  return shards;
}

// Linking gRPC's reflection library turns it on for every server; this takes
// the plugin out again.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*
                         plugins) override {
    plugins->erase(std::remove_if(plugins->begin(), plugins->end(),
                                  [](const auto& plugin) {
                                    return plugin->name() ==
                                           "proto_server_reflection";
                                  }),
                   plugins->end());
  }
};

}  // namespace

std::string Version() { return "0.1.0"; }

class Server::Impl {
 public:
  Impl(ServerOptions options, DataDir dir)
      : options_(std::move(options)), dir_(std::move(dir)) {}

  absl::Status Start() {
    auto shards = OpenShards(options_, dir_);
    if (!shards.ok()) {
      return shards.status();
    }
    shards_ = *std::move(shards);
    std::vector<std::shared_ptr<ShardClient>> clients;
    for (size_t i = 0; i < shards_.size(); ++i) {
      clients.push_back(
          MakeInProcessShardClient(static_cast<int32_t>(i), shards_[i]));
    }
    CoordinatorOptions coordinator_options;
    coordinator_options.limits = options_.limits;
    auto coordinator =
        Coordinator::Create(std::move(clients), coordinator_options);
    if (!coordinator.ok()) {
      return coordinator.status();
    }
    coordinator_ = *std::move(coordinator);
    return Listen();
  }

  int port() const { return port_; }

  std::string address() const {
    return absl::StrCat(options_.listen.substr(0, options_.listen.rfind(':')),
                        ":", port_);
  }

  void Shutdown() {
    std::call_once(shutdown_, [this] {
      if (server_ != nullptr) {
        SetServing(false);
        // Cancels what is left at the deadline; reactors then finish through
        // their cancel tokens.
        server_->Shutdown(std::chrono::system_clock::now() +
                          absl::ToChronoNanoseconds(options_.drain));
        server_->Wait();
      }
      for (const std::shared_ptr<Shard>& shard : shards_) {
        if (shard != nullptr) {
          shard->Stop();
        }
      }
      server_.reset();
      services_.reset();
      coordinator_.reset();
      shards_.clear();
    });
  }

 private:
  absl::Status Listen() {
    ServiceInfo info;
    info.version = Version();
    info.cluster_uuid = dir_.cluster_uuid();
    services_ = MakeServices(coordinator_.get(), options_.limits, info);

    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    if (!options_.reflection) {
      builder.SetOption(std::make_unique<WithoutReflection>());
    }
    builder.AddListeningPort(options_.listen, grpc::InsecureServerCredentials(),
                             &port_);
    for (grpc::Service* service : services_->all()) {
      builder.RegisterService(service);
    }
    const int message_bytes = static_cast<int>(options_.limits.message_bytes);
    builder.SetMaxReceiveMessageSize(message_bytes);
    builder.SetMaxSendMessageSize(message_bytes);
    // A second server on the same port has to fail, not share it.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    // Clients may keep idle channels alive with pings every 10 s or slower.
    builder.AddChannelArgument(
        GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) {
      return absl::UnavailableError(absl::StrCat(
          "cannot listen on ", options_.listen,
          ": is the port taken, the host of this machine, and (for [::]) IPv6 "
          "on? Choose another with --listen=host:port"));
    }
    SetServing(true);
    return absl::OkStatus();
  }

  void SetServing(bool serving) {
    grpc::HealthCheckServiceInterface* health =
        server_->GetHealthCheckService();
    if (health == nullptr) {
      return;
    }
    health->SetServingStatus(serving);
    health->SetServingStatus(kSearchServiceName, serving);
    for (size_t i = 0; i < shards_.size(); ++i) {
      health->SetServingStatus(absl::StrCat("shard/", i), serving);
    }
  }

  const ServerOptions options_;
  // Released last: the lock is held while any shard is open.
  DataDir dir_;
  std::vector<std::shared_ptr<Shard>> shards_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Services> services_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  std::once_flag shutdown_;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() { impl_->Shutdown(); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  auto dir = DataDir::Open(options.data_dir, options.local_shards,
                           kDefaultLocalShards);
  if (!dir.ok()) {
    return dir.status();
  }
  auto impl = std::make_unique<Impl>(std::move(options), *std::move(dir));
  const absl::Status started = impl->Start();
  std::unique_ptr<Server> server(new Server(std::move(impl)));
  if (!started.ok()) {
    return started;  // the destructor closes what was opened
  }
  return server;
}

int Server::port() const { return impl_->port(); }

std::string Server::address() const { return impl_->address(); }

void Server::Shutdown() { impl_->Shutdown(); }

}  // namespace coterie
