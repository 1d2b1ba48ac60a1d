#include "coordinator/grpc_shard_client.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "api/job_convert.h"
#include "api/link_use.h"
#include "api/rpc_call.h"
#include "api/shard_convert.h"
#include "api/v1/shard.grpc.pb.h"
#include "coordinator/remote_scan.h"
#include "coordinator/remote_steps.h"
#include "coordinator/shard_link.h"

namespace coterie {
namespace {

constexpr absl::Duration kPingInterval = absl::Seconds(15);
static_assert(kPingInterval > kLeastPingInterval, "shards would hang up");

// One unary RPC under way.
template <typename Request, typename Response, typename Reply>
struct RemoteCall {
  using Decode = absl::AnyInvocable<absl::StatusOr<Reply>(const Response&,
                                                          const LinkUse&)>;

  RemoteCall(std::shared_ptr<ShardLink> shard_link, CallContext caller)
      : link(std::move(shard_link)),
        target(link->target()),
        call(std::move(caller)) {}

  void Finish(const grpc::Status& status) {
    cancel.reset();
    absl::Status outcome = link->Outcome(status, call, target->address);
    if (outcome.ok()) {
      outcome = link->Receive(response, response.header(), &use);
    }
    if (!outcome.ok()) return done(std::move(outcome));
    absl::StatusOr<Reply> reply = decode(response, use);
    if (!reply.ok()) reply = link->Named(reply.status());
    done(std::move(reply));
  }

  const std::shared_ptr<ShardLink> link;
  const std::shared_ptr<const ShardLink::Target> target;
  const CallContext call;
  grpc::ClientContext context;
  Request request;
  Response response;
  Done<Reply> done;
  Decode decode;
  LinkUse use;
  std::optional<CancelCallback> cancel;
};

template <typename Request, typename Response>
using StubMethod = void (v1::ShardService::StubInterface::async_interface::*)(
    grpc::ClientContext*, const Request*, Response*,
    std::function<void(grpc::Status)>);

// gRPC 1.51 stops its callback threads with the last channel or server that
// uses them. Channels of shards go with the last call, so in a callback; a
// callback thread that stops its kind does not wait for itself, and reads what
// it has just freed. So one user stays until the process ends.
void HoldCallbackThreads() {
  struct Probe {
    grpc::ClientContext context;
    v1::EchoRequest request;
    v1::EchoResponse response;
  };
  static std::once_flag once;
  // Never destroyed, and seen to be held by leak checkers.
  static std::atomic<v1::ShardService::Stub*> holder{nullptr};
  std::call_once(once, [] {
    holder = v1::ShardService::NewStub(
                 grpc::CreateChannel("unix-abstract:coterie-nobody",
                                     grpc::InsecureChannelCredentials()))
                 .release();
    // A channel is a user from its first callback on: that of a call which has
    // been cancelled already will do.
    auto probe = std::make_shared<Probe>();
    probe->context.TryCancel();
    holder.load()->async()->Echo(&probe->context, &probe->request,
                                 &probe->response,
                                 [probe](const grpc::Status& /*status*/) {});
  });
}

class RemoteShardClient final : public GrpcShardClient {
 public:
  RemoteShardClient(int32_t shard_id, std::shared_ptr<grpc::Channel> channel,
                    std::string address, GrpcShardClientOptions options)
      : link_(std::make_shared<ShardLink>(shard_id, std::move(options))) {
    link_->SetTarget(std::move(channel), std::move(address));
  }

  int32_t shard_id() const override { return link_->shard_id(); }
  std::string address() const override { return link_->target()->address; }
  void SetChannel(std::shared_ptr<grpc::Channel> channel,
                  std::string address) override {
    link_->SetTarget(std::move(channel), std::move(address));
  }
  int64_t incarnation() const override { return link_->incarnation(); }

  void Search(std::shared_ptr<const SearchRequest> request, CallContext call,
              Done<ShardSearchReply> done) override {
    v1::ShardSearchRequest encoded;
    EncodeShardRequest(*request, &encoded);
    Start<v1::ShardSearchResponse, ShardSearchReply>(
        &Async::Search, std::move(encoded), std::move(call), std::move(done),
        [request = std::move(request)](
            const v1::ShardSearchResponse& response,
            const LinkUse& use) -> absl::StatusOr<ShardSearchReply> {
          auto reply = DecodeShardReply(response, *request);
          if (reply.ok()) reply->link = use;
          return reply;
        });
  }

  void Write(WriteBatch batch, CallContext call,
             Done<WriteReply> done) override {
    v1::ShardWriteRequest encoded;
    EncodeShardRequest(batch, &encoded);
    Start<v1::ShardWriteResponse, WriteReply>(&Async::Write, std::move(encoded),
                                              std::move(call), std::move(done));
  }

  void Get(GetRequest request, CallContext call, Done<GetReply> done) override {
    v1::ShardGetRequest encoded;
    EncodeShardRequest(request, &encoded);
    Start<v1::ShardGetResponse, GetReply>(
        &Async::Get, std::move(encoded), std::move(call), std::move(done),
        [request = std::move(request)](
            const v1::ShardGetResponse& response,
            const LinkUse& use) -> absl::StatusOr<GetReply> {
          auto reply = DecodeShardReply(response, request);
          if (reply.ok()) reply->link = use;
          return reply;
        });
  }

  void Count(CountRequest request, CallContext call,
             Done<CountReply> done) override {
    v1::ShardCountRequest encoded;
    EncodeShardRequest(request, &encoded);
    Start<v1::ShardCountResponse, CountReply>(&Async::Count, std::move(encoded),
                                              std::move(call), std::move(done));
  }

  std::unique_ptr<PointStream> Scan(ScanRequest request,
                                    CallContext call) override {
    return StartRemoteScan(link_, request, std::move(call));
  }

  void ReadCatalogue(CallContext call, Done<Catalogue> done) override {
    Start<v1::ReadCatalogueResponse, Catalogue>(
        &Async::ReadCatalogue, v1::ReadCatalogueRequest(), std::move(call),
        std::move(done));
  }

  void PutCatalogue(int64_t expected_version, Catalogue catalogue,
                    CallContext call, Done<int64_t> done) override {
    v1::PutCatalogueRequest encoded;
    encoded.set_expected_version(expected_version);
    EncodeCatalogue(catalogue, encoded.mutable_catalogue());
    Start<v1::PutCatalogueResponse, int64_t>(&Async::PutCatalogue,
                                             std::move(encoded),
                                             std::move(call), std::move(done));
  }

  void CollectionStats(std::string collection, CallContext call,
                       Done<ShardCollectionStats> done) override {
    v1::CollectionStatsRequest encoded;
    encoded.set_collection(std::move(collection));
    Start<v1::CollectionStatsResponse, ShardCollectionStats>(
        &Async::CollectionStats, std::move(encoded), std::move(call),
        std::move(done));
  }

  void Describe(CallContext call, Done<ShardDescription> done) override {
    Start<v1::DescribeShardResponse, ShardDescription>(
        &Async::Describe, v1::DescribeShardRequest(), std::move(call),
        std::move(done),
        [name = address()](
            const v1::DescribeShardResponse& response,
            const LinkUse& /*use*/) -> absl::StatusOr<ShardDescription> {
          auto shard = DecodeShardReply(response);
          if (shard.ok()) shard->address = name;
          return shard;
        });
  }

  void BeginJob(JobBegin begin, CallContext call,
                Done<JobBegun> done) override {
    v1::BeginJobRequest encoded;
    EncodeShardRequest(begin, &encoded);
    Start<v1::BeginJobResponse, JobBegun>(&Async::BeginJob, std::move(encoded),
                                          std::move(call), std::move(done));
  }
  void StepJob(JobStep step, CallContext call, Done<JobAnswer> done) override {
    v1::JobStepRequest encoded;
    EncodeShardRequest(step, &encoded);
    StubMethod<v1::JobStepRequest, v1::JobStepResponse> rpc =
        &Async::KMeansStep;
    if (step.kind == JobKind::kSgd) rpc = &Async::SgdStep;
    Start<v1::JobStepResponse, JobAnswer>(
        rpc, std::move(encoded), std::move(call), std::move(done),
        [](const v1::JobStepResponse& response,
           const LinkUse& use) -> absl::StatusOr<JobAnswer> {
          auto answer = DecodeShardReply(response);
          if (answer.ok()) answer->link = use;
          return answer;
        });
  }
  std::unique_ptr<StepStream> OpenSteps() override {
    return MakeRemoteSteps(link_);
  }
  void LabelRows(JobLabel label, CallContext call,
                 Done<JobLabelled> done) override {
    v1::LabelRowsRequest encoded;
    EncodeShardRequest(label, &encoded);
    Start<v1::LabelRowsResponse, JobLabelled>(&Async::LabelRows,
                                              std::move(encoded),
                                              std::move(call), std::move(done));
  }
  void EndJob(JobRef job, CallContext call, Done<bool> done) override {
    v1::EndJobRequest encoded;
    EncodeShardRequest(job, &encoded);
    Start<v1::EndJobResponse, bool>(&Async::EndJob, std::move(encoded),
                                    std::move(call), std::move(done));
  }
  void ReadRecords(RecordsRequest request, CallContext call,
                   Done<std::vector<StoredRecord>> done) override {
    v1::ReadRecordsRequest encoded;
    EncodeShardRequest(request, &encoded);
    Start<v1::ReadRecordsResponse, std::vector<StoredRecord>>(
        &Async::ReadRecords, std::move(encoded), std::move(call),
        std::move(done),
        [request = std::move(request)](const v1::ReadRecordsResponse& response,
                                       const LinkUse& /*use*/) {
          return DecodeShardReply(response, request);
        });
  }
  void PutRecord(RecordPut put, CallContext call, Done<int64_t> done) override {
    v1::PutRecordRequest encoded;
    EncodeShardRequest(put, &encoded);
    Start<v1::PutRecordResponse, int64_t>(&Async::PutRecord, std::move(encoded),
                                          std::move(call), std::move(done));
  }

 private:
  using Async = v1::ShardService::StubInterface::async_interface;

  template <typename Response, typename Reply, typename Request>
  void Start(StubMethod<Request, Response> method, Request request,
             CallContext call, Done<Reply> done,
             typename RemoteCall<Request, Response, Reply>::Decode decode) {
    auto rpc = std::make_shared<RemoteCall<Request, Response, Reply>>(
        link_, std::move(call));
    rpc->request = std::move(request);
    link_->Address(rpc->request.mutable_header());
    const absl::Status admitted =
        link_->Admit(rpc->request, rpc->call, link_->options().longest_call,
                     &rpc->context, &rpc->use);
    if (!admitted.ok()) return done(admitted);
    rpc->done = std::move(done);
    rpc->decode = std::move(decode);
    // Before the RPC starts: afterwards it may end, and the callback with it,
    // on another thread. gRPC keeps a cancellation that comes early.
    rpc->cancel.emplace(rpc->call.cancel,
                        [raw = rpc.get()] { raw->context.TryCancel(); });
    (rpc->target->stub->async()->*method)(
        &rpc->context, &rpc->request, &rpc->response,
        [rpc](const grpc::Status& status) { rpc->Finish(status); });
  }

  // For replies that need no more than themselves.
  template <typename Response, typename Reply, typename Request>
  void Start(StubMethod<Request, Response> method, Request request,
             CallContext call, Done<Reply> done) {
    Start<Response, Reply>(method, std::move(request), std::move(call),
                           std::move(done),
                           [](const Response& response,
                              const LinkUse& /*use*/) -> absl::StatusOr<Reply> {
                             return DecodeShardReply(response);
                           });
  }

  const std::shared_ptr<ShardLink> link_;
};

}  // namespace

std::shared_ptr<GrpcShardClient> MakeGrpcShardClient(
    int32_t shard_id, std::shared_ptr<grpc::Channel> channel,
    std::string address, GrpcShardClientOptions options) {
  HoldCallbackThreads();
  return std::make_shared<RemoteShardClient>(
      shard_id, std::move(channel), std::move(address), std::move(options));
}

std::shared_ptr<grpc::Channel> MakeShardChannel(const std::string& address,
                                                int64_t message_bytes) {
  const int most = static_cast<int>(
      std::min<int64_t>(message_bytes, std::numeric_limits<int>::max()));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(most);
  arguments.SetMaxSendMessageSize(most);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(kPingInterval)));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Also how long one attempt to connect may take.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Shards are neighbours: whatever proxy the environment names is not for
  // them.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Another client's channel to this address shares neither its connection nor
  // its pause after a failure.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace coterie
