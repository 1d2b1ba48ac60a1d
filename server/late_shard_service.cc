#include "server/late_shard_service.h"

#include <atomic>
#include <type_traits>
#include <utility>

#include "api/grpc_status.h"
#include "api/scan_call.h"
#include "api/shard_convert.h"
#include "api/status_details.h"
#include "api/v1/shard.grpc.pb.h"
#include "shard/shard_service.h"
#include "shard/step_stream.h"

namespace coterie {
namespace {

using Context = grpc::CallbackServerContext;
using Callbacks = v1::ShardService::CallbackService;

class LateService final : public Callbacks {
 public:
  LateService(ShardDescription loading, const RpcOptions& options)
      : loading_(std::move(loading)), options_(options) {}

  void Serve(Shard* shard) {
    made_ = MakeShardService(shard, options_);
    target_.store(dynamic_cast<Callbacks*>(made_.get()),
                  std::memory_order_release);
  }

  grpc::ServerUnaryReactor* Echo(Context* context,
                                 const v1::EchoRequest* request,
                                 v1::EchoResponse* response) override {
    return Pass(&Callbacks::Echo, context, request, response);
  }
  grpc::ServerUnaryReactor* Search(Context* context,
                                   const v1::ShardSearchRequest* request,
                                   v1::ShardSearchResponse* response) override {
    return Pass(&Callbacks::Search, context, request, response);
  }
  grpc::ServerUnaryReactor* Write(Context* context,
                                  const v1::ShardWriteRequest* request,
                                  v1::ShardWriteResponse* response) override {
    return Pass(&Callbacks::Write, context, request, response);
  }
  grpc::ServerUnaryReactor* Get(Context* context,
                                const v1::ShardGetRequest* request,
                                v1::ShardGetResponse* response) override {
    return Pass(&Callbacks::Get, context, request, response);
  }
  grpc::ServerUnaryReactor* Count(Context* context,
                                  const v1::ShardCountRequest* request,
                                  v1::ShardCountResponse* response) override {
    return Pass(&Callbacks::Count, context, request, response);
  }
  grpc::ServerWriteReactor<v1::ShardScanResponse>* Scan(
      Context* context, const v1::ShardScanRequest* request) override {
    if (Callbacks* target = Target()) {
      return target->Scan(context, request);
    }
    auto* rpc = new ScanCall<v1::ShardScanResponse>(
        context, "ShardService/Scan", options_);
    return rpc->Refuse(Loading());
  }
  grpc::ServerUnaryReactor* ReadCatalogue(
      Context* context, const v1::ReadCatalogueRequest* request,
      v1::ReadCatalogueResponse* response) override {
    return Pass(&Callbacks::ReadCatalogue, context, request, response);
  }
  grpc::ServerUnaryReactor* PutCatalogue(
      Context* context, const v1::PutCatalogueRequest* request,
      v1::PutCatalogueResponse* response) override {
    return Pass(&Callbacks::PutCatalogue, context, request, response);
  }
  grpc::ServerUnaryReactor* CollectionStats(
      Context* context, const v1::CollectionStatsRequest* request,
      v1::CollectionStatsResponse* response) override {
    return Pass(&Callbacks::CollectionStats, context, request, response);
  }
  grpc::ServerUnaryReactor* BeginJob(Context* context,
                                     const v1::BeginJobRequest* request,
                                     v1::BeginJobResponse* response) override {
    return Pass(&Callbacks::BeginJob, context, request, response);
  }
  grpc::ServerUnaryReactor* KMeansStep(Context* context,
                                       const v1::JobStepRequest* request,
                                       v1::JobStepResponse* response) override {
    return Pass(&Callbacks::KMeansStep, context, request, response);
  }
  grpc::ServerUnaryReactor* SgdStep(Context* context,
                                    const v1::JobStepRequest* request,
                                    v1::JobStepResponse* response) override {
    return Pass(&Callbacks::SgdStep, context, request, response);
  }
  StepStreamReactor* SgdSteps(Context* context) override {
    if (Callbacks* target = Target()) return target->SgdSteps(context);
    return RefuseStepStream(Loading(), options_);
  }
  grpc::ServerUnaryReactor* LabelRows(
      Context* context, const v1::LabelRowsRequest* request,
      v1::LabelRowsResponse* response) override {
    return Pass(&Callbacks::LabelRows, context, request, response);
  }
  grpc::ServerUnaryReactor* EndJob(Context* context,
                                   const v1::EndJobRequest* request,
                                   v1::EndJobResponse* response) override {
    return Pass(&Callbacks::EndJob, context, request, response);
  }
  grpc::ServerUnaryReactor* ReadRecords(
      Context* context, const v1::ReadRecordsRequest* request,
      v1::ReadRecordsResponse* response) override {
    return Pass(&Callbacks::ReadRecords, context, request, response);
  }
  grpc::ServerUnaryReactor* PutRecord(
      Context* context, const v1::PutRecordRequest* request,
      v1::PutRecordResponse* response) override {
    return Pass(&Callbacks::PutRecord, context, request, response);
  }
  grpc::ServerUnaryReactor* Describe(
      Context* context, const v1::DescribeShardRequest* request,
      v1::DescribeShardResponse* response) override {
    if (Callbacks* target = Target()) {
      return target->Describe(context, request, response);
    }
    auto* rpc = new UnaryCall(context, response, "ShardService/Describe",
                              kDescribeDeadline, options_);
    const absl::Status admitted = CheckShardRequestHeader(
        request->header(), loading_.shard_id, loading_.cluster_uuid, "");
    if (!admitted.ok()) {
      return rpc->Refuse(admitted);
    }
    rpc->Replier<bool>([this, response](bool) {
      EncodeShardReply(loading_, response);
      response->mutable_header()->set_shard_id(loading_.shard_id);
    })(true);
    return rpc;
  }

 private:
  Callbacks* Target() const { return target_.load(std::memory_order_acquire); }

  absl::Status Loading() const {
    return WithShard(absl::UnavailableError("is loading; try again"),
                     loading_.shard_id);
  }

  // The method may be named by its base; the type says which overload.
  template <typename Request, typename Response>
  using Unary = grpc::ServerUnaryReactor* (Callbacks::*)(Context*,
                                                         const Request*,
                                                         Response*);

  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Pass(
      std::type_identity_t<Unary<Request, Response>> method, Context* context,
      const Request* request, Response* response) {
    if (Callbacks* target = Target()) {
      return (target->*method)(context, request, response);
    }
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(ToGrpcStatus(Loading()));
    return reactor;
  }

  const ShardDescription loading_;
  const RpcOptions options_;
  std::unique_ptr<grpc::Service> made_;
  std::atomic<Callbacks*> target_{nullptr};
};

class LateShardServiceImpl final : public LateShardService {
 public:
  LateShardServiceImpl(ShardDescription loading, const RpcOptions& options)
      : service_(std::move(loading), options) {}

  grpc::Service* service() override { return &service_; }
  void Serve(Shard* shard) override { service_.Serve(shard); }

 private:
  LateService service_;
};

}  // namespace

std::unique_ptr<LateShardService> MakeLateShardService(ShardDescription loading,
                                                       RpcOptions options) {
  return std::make_unique<LateShardServiceImpl>(std::move(loading), options);
}

}  // namespace coterie
