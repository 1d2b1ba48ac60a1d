#include "server/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "api/await.h"
#include "api/byte_budget.h"
#include "api/rpc_call.h"
#include "api/shard_messages.h"
#include "api/version.h"
#include "api/wire_counters.h"
#include "coordinator/coordinator.h"
#include "coordinator/coordinator_slot.h"
#include "coordinator/grpc_shard_client.h"
#include "coordinator/services.h"
#include "server/backend.h"
#include "server/cluster_link.h"
#include "server/data_dir.h"
#include "server/health.h"
#include "server/health_service.h"
#include "server/http_server.h"
#include "server/listen_address.h"
#include "server/local_shards.h"
#include "server/metrics.h"
#include "server/shard_addresses.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

// How long a scrape waits for shards to describe themselves.
constexpr absl::Duration kScrapeTimeout = absl::Seconds(1);

// How long a coordinator waits for each answer when it joins its shards.
constexpr absl::Duration kConnectTimeout = absl::Seconds(5);

// What gRPC may buffer beyond the requests being handled.
constexpr int64_t kTransportSlackBytes = int64_t{64} << 20;

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

// Vectors that come as bytes of int8 go on to shards as float32.
int64_t ShardMessageBytes(const Limits& limits) {
  constexpr int64_t kHeaders = int64_t{1} << 20;
  return std::min<int64_t>(std::numeric_limits<int32_t>::max(),
                           4 * limits.message_bytes + kHeaders);
}

std::unique_ptr<Backend> MakeRemoteCluster(
    const ServerOptions& options, std::shared_ptr<WireCounters> counters,
    CoordinatorSlot* slot, Health* health) {
  ClusterLinkOptions link;
  link.cluster_uuid = options.cluster_uuid;
  link.serve_partial = options.serve_partial;
  link.coordinator.limits = options.limits;
  link.coordinator.jobs.step_timeout = options.job_step;
  link.coordinator.accepted_stores = options.accepted_stores;
  link.coordinator.connect_timeout = kConnectTimeout;
  const int64_t message_bytes = ShardMessageBytes(options.limits);
  return MakeClusterLink(
      std::move(link), MakeShardAddresses(options.shards),
      [message_bytes, counters](
          int32_t shard_id, const std::string& address,
          const std::string& cluster_uuid,
          const std::string& store_id) -> std::shared_ptr<ShardClient> {
        GrpcShardClientOptions client;
        client.message_bytes = message_bytes;
        client.cluster_uuid = cluster_uuid;
        client.store_id = store_id;
        client.counters = counters;
        return MakeGrpcShardClient(shard_id,
                                   MakeShardChannel(address, message_bytes),
                                   address, std::move(client));
      },
      slot, health);
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(
    const ServerOptions& options, const RpcOptions& rpc,
    std::shared_ptr<WireCounters> links, CoordinatorSlot* slot,
    Health* health) {
  if (options.role == ServerOptions::Role::kCoordinator) {
    return MakeRemoteCluster(options, std::move(links), slot, health);
  }
  DataDirRequest request;
  request.cluster_uuid = options.cluster_uuid;
  request.shards = options.local_shards;
  request.default_shards = kDefaultLocalShards;
  if (options.role == ServerOptions::Role::kShard) {
    request.shard_id = options.shard_id;
    request.shards = options.shards_total;
  }
  auto dir = DataDir::Open(options.data_dir, request);
  if (!dir.ok()) {
    return dir.status();
  }
  return MakeLocalShards(options, *std::move(dir), rpc, slot, health);
}

}  // namespace

std::string Version() { return kVersion; }

class Server::Impl {
 public:
  Impl(ServerOptions options, ListenAddress listen)
      : options_(std::move(options)),
        listen_(std::move(listen)),
        budget_(std::make_shared<ByteBudget>(options_.max_inflight_bytes)),
        metrics_(MetricSources()) {
    rpc_.limits = options_.limits;
    rpc_.observer = metrics_.Observer();
    rpc_.budget = budget_;
  }

  ~Impl() {
    Shutdown();
    if (runner_.joinable()) {
      runner_.join();  // shards were still loading
      End();
    }
  }

  absl::Status Start() {
    absl::StatusOr<std::unique_ptr<Backend>> backend =
        MakeBackend(options_, rpc_, links_, &slot_, &health_);
    if (!backend.ok()) {
      return backend.status();
    }
    backend_ = *std::move(backend);
    if (absl::Status s = Listen(); !s.ok()) {
      return s;
    }
    if (absl::Status s = ListenHttp(); !s.ok()) {
      return s;
    }
    health_.Watch("", [this](std::optional<bool> serving) {
      if (serving.value_or(false)) {
        MutexLock lock(&mu_);
        served_ = true;
        changed_.NotifyAll();
      }
    });
    {
      MutexLock lock(&mu_);
      running_ = true;
    }
    runner_ = std::thread([this] {
      const absl::Status ended = backend_->Run();
      MutexLock lock(&mu_);
      running_ = false;
      if (!ended.ok()) {
        failure_ = ended;
      }
      changed_.NotifyAll();
    });
    return absl::OkStatus();
  }

  absl::Status Await(bool for_serving) {
    MutexLock lock(&mu_);
    while (!(for_serving && served_) && !stop_requested_ && !stopping_ &&
           failure_.ok()) {
      changed_.Wait(&mu_);
    }
    if (stop_requested_ || stopping_) {
      return absl::CancelledError("the server was told to stop");
    }
    return failure_;
  }

  void RequestStop() {
    MutexLock lock(&mu_);
    stop_requested_ = true;
    changed_.NotifyAll();
  }

  int port() const { return port_; }
  std::string address() const { return listen_.ToString(port_); }
  std::string http_address() const {
    return http_ == nullptr ? "" : http_->address();
  }

  bool Shutdown() {
    {
      MutexLock lock(&mu_);
      if (stopping_) {
        while (!stopped_) {
          changed_.Wait(&mu_);
        }
        return ended_;
      }
      stopping_ = true;
      changed_.NotifyAll();
    }
    const bool ended = Drain();
    MutexLock lock(&mu_);
    stopped_ = true;
    ended_ = ended;
    changed_.NotifyAll();
    return ended;
  }

 private:
  bool Drain() {
    health_.Drain();
    const bool loading = [this] {
      MutexLock lock(&mu_);
      return running_ && !served_;
    }();
    if (server_ != nullptr) {
      const absl::Time until = absl::Now() + options_.drain_delay;
      MutexLock lock(&mu_);
      while (!loading && absl::Now() < until) {
        changed_.WaitFor(&mu_, absl::ToChronoNanoseconds(until - absl::Now()));
      }
    }
    if (server_ != nullptr) {
      health_service_->EndWatches();
      // Cancels what is left at the deadline; reactors then finish through
      // their cancel tokens.
      server_->Shutdown(std::chrono::system_clock::now() +
                        absl::ToChronoNanoseconds(options_.drain));
      server_->Wait();
    }
    if (backend_ != nullptr) {
      backend_->Stop();
    }
    if (loading && options_.role != ServerOptions::Role::kCoordinator) {
      return false;
    }
    if (runner_.joinable()) {
      runner_.join();
    }
    End();
    return true;
  }

  // Everything has come to rest: takes it apart, users before used.
  void End() {
    http_.reset();
    if (backend_ != nullptr) {
      backend_->Close();
    }
    server_.reset();
    services_.reset();
    health_service_.reset();
    backend_.reset();
    socket_lock_.reset();
  }

  absl::Status Listen() {
    if (absl::Status s = CheckFamily(listen_); !s.ok()) {
      return s;
    }
    if (listen_.is_unix()) {
      absl::StatusOr<SocketLock> lock = SocketLock::Take(listen_.unix_path);
      if (!lock.ok()) {
        return lock.status();
      }
      socket_lock_.emplace(*std::move(lock));
    }
    services_ = MakeServices(slot_, rpc_, Version());
    health_service_ = MakeHealthService(&health_);

    grpc::ServerBuilder builder;
    if (!options_.reflection) {
      builder.SetOption(std::make_unique<WithoutReflection>());
    }
    builder.AddListeningPort(listen_.ToString(listen_.port),
                             grpc::InsecureServerCredentials(), &port_);
    for (grpc::Service* service : services_->all()) {
      builder.RegisterService(service);
    }
    for (grpc::Service* service : backend_->services()) {
      builder.RegisterService(service);
    }
    builder.RegisterService(health_service_->service());
    SetTransport(&builder);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) {
      return absl::UnavailableError(absl::StrCat(
          "cannot listen on ", listen_.ToString(listen_.port),
          listen_.is_unix()
              ? ": is the folder there and writable?"
              : ": is the port taken, and the host of this machine?",
          " Choose another with --listen=host:port"));
    }
    return absl::OkStatus();
  }

  void SetTransport(grpc::ServerBuilder* builder) const {
    const int message_bytes =
        static_cast<int>(options_.role == ServerOptions::Role::kShard
                             ? ShardMessageBytes(options_.limits)
                             : options_.limits.message_bytes);
    builder->SetMaxReceiveMessageSize(message_bytes);
    builder->SetMaxSendMessageSize(message_bytes);
    // Bounds what gRPC buffers of calls that no handler has seen yet.
    grpc::ResourceQuota quota("coteried");
    quota.Resize(static_cast<size_t>(2 * options_.max_inflight_bytes +
                                     kTransportSlackBytes));
    builder->SetResourceQuota(quota);
    // A second server on the same port has to fail, not share it.
    builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder->AddChannelArgument(
        GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
        static_cast<int>(
            absl::ToInt64Milliseconds(options_.least_ping_interval)));
    builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
  }

  absl::Status ListenHttp() {
    if (options_.http.empty()) {
      return absl::OkStatus();
    }
    absl::StatusOr<ListenAddress> address = ParseListenAddress(options_.http);
    if (!address.ok()) {
      return address.status();
    }
    absl::StatusOr<std::unique_ptr<HttpServer>> http = HttpServer::Start(
        *address, &health_, [this] { return metrics_.Collect(); });
    if (http.ok()) {
      http_ = *std::move(http);
      return absl::OkStatus();
    }
    // Nobody asked for the default: a second server of this machine may do
    // without.
    if (options_.http == kDefaultHttp) {
      std::cerr << "coteried: " << http.status().message()
                << "; going on without HTTP" << std::endl;
      return absl::OkStatus();
    }
    return http.status();
  }

  Metrics::Sources MetricSources() {
    Metrics::Sources sources;
    sources.version = Version();
    sources.role = RoleName(options_.role);
    sources.health = &health_;
    sources.budget = budget_.get();
    sources.links = links_.get();
    sources.shards = [this]() -> std::vector<ShardDescription> {
      const auto coordinator = slot_.Current();
      if (!coordinator.ok()) {
        return slot_.pending_shards();
      }
      CallContext call;
      call.deadline = absl::Now() + kScrapeTimeout;
      auto told = coterie::Await<std::vector<ShardDescription>>(
          [&](Done<std::vector<ShardDescription>> done) {
            (*coordinator)->Describe(call, std::move(done));
          });
      return told.ok() ? *std::move(told) : std::vector<ShardDescription>();
    };
    sources.duplicate_ids = [this]() -> int64_t {
      const auto coordinator = slot_.Current();
      return coordinator.ok() ? (*coordinator)->duplicate_ids_met() : 0;
    };
    sources.recalls = [this] {
      const auto coordinator = slot_.Current();
      return coordinator.ok() ? (*coordinator)->recalls()
                              : std::map<std::string, double>();
    };
    return sources;
  }

  const ServerOptions options_;
  const ListenAddress listen_;
  Health health_;
  CoordinatorSlot slot_;
  const std::shared_ptr<ByteBudget> budget_;
  // What went to remote shards and came from them.
  const std::shared_ptr<WireCounters> links_ = std::make_shared<WireCounters>();
  Metrics metrics_;
  RpcOptions rpc_;
  std::optional<SocketLock> socket_lock_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Services> services_;
  std::unique_ptr<HealthService> health_service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<HttpServer> http_;
  int port_ = 0;
  std::thread runner_;

  Mutex mu_;
  CondVar changed_;
  bool served_ ABSL_GUARDED_BY(mu_) = false;
  bool running_ ABSL_GUARDED_BY(mu_) = false;  // the backend
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  bool stop_requested_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() = default;

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  absl::StatusOr<ListenAddress> listen = ParseListenAddress(options.listen);
  if (!listen.ok()) {
    return listen.status();
  }
  if (options.least_ping_interval == absl::ZeroDuration()) {
    options.least_ping_interval = kLeastPingInterval;
  }
  if (options.max_inflight_bytes == 0) {
    options.max_inflight_bytes = DefaultInflightBytes(options.limits);
  }
  auto impl = std::make_unique<Impl>(std::move(options), *std::move(listen));
  const absl::Status started = impl->Start();
  std::unique_ptr<Server> server(new Server(std::move(impl)));
  if (!started.ok()) {
    return started;  // the destructor closes what was opened
  }
  return server;
}

absl::Status Server::AwaitServing() { return impl_->Await(true); }

absl::Status Server::AwaitEnd() { return impl_->Await(false); }

void Server::RequestStop() { impl_->RequestStop(); }

int Server::port() const { return impl_->port(); }

std::string Server::address() const { return impl_->address(); }

std::string Server::http_address() const { return impl_->http_address(); }

bool Server::Shutdown() { return impl_->Shutdown(); }

}  // namespace coterie
