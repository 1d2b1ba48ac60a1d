#include "shard/shard_service.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "api/job_convert.h"
#include "api/scan_call.h"
#include "api/shard_convert.h"
#include "api/stopwatch.h"
#include "api/v1/shard.grpc.pb.h"
#include "shard/step_stream.h"

namespace coterie {
namespace {

class ShardServiceImpl final : public v1::ShardService::CallbackService {
 public:
  ShardServiceImpl(Shard* shard, RpcOptions options)
      : shard_(shard), options_(std::move(options)) {}

  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context,
                                 const v1::EchoRequest* request,
                                 v1::EchoResponse* response) override;
  grpc::ServerUnaryReactor* Search(grpc::CallbackServerContext* context,
                                   const v1::ShardSearchRequest* request,
                                   v1::ShardSearchResponse* response) override;
  grpc::ServerUnaryReactor* Write(grpc::CallbackServerContext* context,
                                  const v1::ShardWriteRequest* request,
                                  v1::ShardWriteResponse* response) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const v1::ShardGetRequest* request,
                                v1::ShardGetResponse* response) override;
  grpc::ServerUnaryReactor* Count(grpc::CallbackServerContext* context,
                                  const v1::ShardCountRequest* request,
                                  v1::ShardCountResponse* response) override;
  grpc::ServerWriteReactor<v1::ShardScanResponse>* Scan(
      grpc::CallbackServerContext* context,
      const v1::ShardScanRequest* request) override;
  grpc::ServerUnaryReactor* ReadCatalogue(
      grpc::CallbackServerContext* context,
      const v1::ReadCatalogueRequest* request,
      v1::ReadCatalogueResponse* response) override;
  grpc::ServerUnaryReactor* PutCatalogue(
      grpc::CallbackServerContext* context,
      const v1::PutCatalogueRequest* request,
      v1::PutCatalogueResponse* response) override;
  grpc::ServerUnaryReactor* CollectionStats(
      grpc::CallbackServerContext* context,
      const v1::CollectionStatsRequest* request,
      v1::CollectionStatsResponse* response) override;
  grpc::ServerUnaryReactor* Describe(
      grpc::CallbackServerContext* context,
      const v1::DescribeShardRequest* request,
      v1::DescribeShardResponse* response) override;
  grpc::ServerUnaryReactor* BeginJob(grpc::CallbackServerContext* context,
                                     const v1::BeginJobRequest* request,
                                     v1::BeginJobResponse* response) override {
    return Serve("ShardService/BeginJob", kJobDeadline, &Shard::BeginJob,
                 context, request, response);
  }
  grpc::ServerUnaryReactor* KMeansStep(grpc::CallbackServerContext* context,
                                       const v1::JobStepRequest* request,
                                       v1::JobStepResponse* response) override {
    return Serve("ShardService/KMeansStep", kJobDeadline, &Shard::StepJob,
                 context, request, response);
  }
  grpc::ServerUnaryReactor* SgdStep(grpc::CallbackServerContext* context,
                                    const v1::JobStepRequest* request,
                                    v1::JobStepResponse* response) override {
    return Serve("ShardService/SgdStep", kJobDeadline, &Shard::StepSgdJob,
                 context, request, response);
  }
  StepStreamReactor* SgdSteps(
      grpc::CallbackServerContext* /*context*/) override {
    return StartStepStream(shard_, options_);
  }
  grpc::ServerUnaryReactor* LabelRows(
      grpc::CallbackServerContext* context, const v1::LabelRowsRequest* request,
      v1::LabelRowsResponse* response) override {
    return Serve("ShardService/LabelRows", kJobDeadline, &Shard::LabelRows,
                 context, request, response);
  }
  grpc::ServerUnaryReactor* EndJob(grpc::CallbackServerContext* context,
                                   const v1::EndJobRequest* request,
                                   v1::EndJobResponse* response) override {
    return Serve("ShardService/EndJob", kDescribeDeadline, &Shard::EndJob,
                 context, request, response);
  }
  grpc::ServerUnaryReactor* ReadRecords(
      grpc::CallbackServerContext* context,
      const v1::ReadRecordsRequest* request,
      v1::ReadRecordsResponse* response) override {
    return Serve("ShardService/ReadRecords", kReadDeadline, &Shard::ReadRecords,
                 context, request, response);
  }
  grpc::ServerUnaryReactor* PutRecord(
      grpc::CallbackServerContext* context, const v1::PutRecordRequest* request,
      v1::PutRecordResponse* response) override {
    return Serve("ShardService/PutRecord", kWriteDeadline, &Shard::PutRecord,
                 context, request, response);
  }

 private:
  // A call that is decoded, made and encoded without more ado.
  template <typename Domain, typename Reply, typename Request,
            typename Response>
  grpc::ServerUnaryReactor* Serve(absl::string_view name,
                                  absl::Duration deadline,
                                  void (Shard::*method)(Domain, CallContext,
                                                        Done<Reply>),
                                  grpc::CallbackServerContext* context,
                                  const Request* request, Response* response) {
    const Stopwatch watch;
    auto* rpc = new UnaryCall(context, response, name, deadline, options_);
    const absl::Status admitted = Admit(rpc, *request);
    if (!admitted.ok()) return rpc->Refuse(admitted);
    absl::StatusOr<Domain> decoded =
        DecodeShardRequest(*request, options_.limits);
    if (!decoded.ok()) return rpc->Refuse(decoded.status());
    (shard_->*method)(
        *std::move(decoded), rpc->call(),
        Replier<Reply>(rpc, watch, response, [](Reply& reply, Response* out) {
          EncodeShardReply(std::move(reply), out);
        }));
    return rpc;
  }

  // Counts the request and charges it to the budget; whether it is for this
  // shard.
  template <typename Rpc, typename Request>
  absl::Status Admit(Rpc* rpc, const Request& request) const {
    CountReceived(request, options_);
    const absl::Status charged = rpc->Charge(request);
    if (!charged.ok()) return charged;
    return CheckShardRequestHeader(request.header(), shard_->shard_id(),
                                   shard_->cluster_uuid(), shard_->store_id());
  }

  void Sign(const Stopwatch& watch, v1::ShardReplyHeader* header) const {
    header->set_shard_id(shard_->shard_id());
    header->set_incarnation(shard_->incarnation());
    header->set_shard_seconds(watch.Seconds());
  }

  // The callback that ends an RPC with encode(reply, response), signed.
  template <typename Reply, typename Response, typename Encode>
  Done<Reply> Replier(UnaryCall* rpc, const Stopwatch& watch,
                      Response* response, Encode encode) const {
    return rpc->Replier<Reply>(
        [this, watch, response, encode = std::move(encode)](Reply reply) {
          encode(reply, response);
          Sign(watch, response->mutable_header());
        });
  }
  template <typename Reply, typename Response>
  Done<Reply> Replier(UnaryCall* rpc, const Stopwatch& watch,
                      Response* response) const {
    return Replier<Reply>(rpc, watch, response,
                          [](const Reply& reply, Response* out) {
                            EncodeShardReply(reply, out);
                          });
  }

  Shard* const shard_;
  const RpcOptions options_;
};

grpc::ServerUnaryReactor* ShardServiceImpl::Echo(
    grpc::CallbackServerContext* context, const v1::EchoRequest* request,
    v1::EchoResponse* response) {
  auto* rpc = new UnaryCall(context, response, "ShardService/Echo",
                            kDescribeDeadline, options_);
  const absl::Status admitted = Admit(rpc, *request);
  if (!admitted.ok()) return rpc->Refuse(admitted);
  rpc->Replier<bool>([this, request, response](bool) {
    response->set_payload(request->payload());
    response->set_shard_id(shard_->shard_id());
    response->set_incarnation(shard_->incarnation());
  })(true);
  return rpc;
}

grpc::ServerUnaryReactor* ShardServiceImpl::Search(
    grpc::CallbackServerContext* context, const v1::ShardSearchRequest* request,
    v1::ShardSearchResponse* response) {
  const Stopwatch watch;
  auto* rpc = new UnaryCall(context, response, "ShardService/Search",
                            kSearchDeadline, options_);
  const absl::Status admitted = Admit(rpc, *request);
  if (!admitted.ok()) return rpc->Refuse(admitted);
  auto decoded = DecodeShardRequest(*request, options_.limits);
  if (!decoded.ok()) return rpc->Refuse(decoded.status());
  shard_->Search(std::make_shared<SearchRequest>(*std::move(decoded)),
                 rpc->call(), Replier<ShardSearchReply>(rpc, watch, response));
  return rpc;
}

grpc::ServerUnaryReactor* ShardServiceImpl::Write(
    grpc::CallbackServerContext* context, const v1::ShardWriteRequest* request,
    v1::ShardWriteResponse* response) {
  const Stopwatch watch;
  auto* rpc = new UnaryCall(context, response, "ShardService/Write",
                            kWriteDeadline, options_);
  const absl::Status admitted = Admit(rpc, *request);
  if (!admitted.ok()) return rpc->Refuse(admitted);
  auto decoded = DecodeShardRequest(*request, options_.limits);
  if (!decoded.ok()) return rpc->Refuse(decoded.status());
  shard_->Write(*std::move(decoded), rpc->call(),
                Replier<WriteReply>(rpc, watch, response));
  return rpc;
}

grpc::ServerUnaryReactor* ShardServiceImpl::Get(
    grpc::CallbackServerContext* context, const v1::ShardGetRequest* request,
    v1::ShardGetResponse* response) {
  const Stopwatch watch;
  auto* rpc = new UnaryCall(context, response, "ShardService/Get",
                            kReadDeadline, options_);
  const absl::Status admitted = Admit(rpc, *request);
  if (!admitted.ok()) return rpc->Refuse(admitted);
  auto decoded = DecodeShardRequest(*request, options_.limits);
  if (!decoded.ok()) return rpc->Refuse(decoded.status());
  shard_->Get(*std::move(decoded), rpc->call(),
              Replier<GetReply>(rpc, watch, response));
  return rpc;
}

grpc::ServerUnaryReactor* ShardServiceImpl::Count(
    grpc::CallbackServerContext* context, const v1::ShardCountRequest* request,
    v1::ShardCountResponse* response) {
  const Stopwatch watch;
  auto* rpc = new UnaryCall(context, response, "ShardService/Count",
                            kReadDeadline, options_);
  const absl::Status admitted = Admit(rpc, *request);
  if (!admitted.ok()) return rpc->Refuse(admitted);
  auto decoded = DecodeShardRequest(*request, options_.limits);
  if (!decoded.ok()) return rpc->Refuse(decoded.status());
  shard_->Count(*std::move(decoded), rpc->call(),
                Replier<CountReply>(rpc, watch, response));
  return rpc;
}

grpc::ServerWriteReactor<v1::ShardScanResponse>* ShardServiceImpl::Scan(
    grpc::CallbackServerContext* context, const v1::ShardScanRequest* request) {
  auto* rpc = new ScanCall<v1::ShardScanResponse>(context, "ShardService/Scan",
                                                  options_);
  const absl::Status admitted = Admit(rpc, *request);
  if (!admitted.ok()) return rpc->Refuse(admitted);
  auto decoded = DecodeShardRequest(*request, options_.limits);
  if (!decoded.ok()) return rpc->Refuse(decoded.status());
  return rpc->Run(shard_->Scan(*std::move(decoded), rpc->call()),
                  [this, watch = Stopwatch()](const ScanPage& page,
                                              v1::ShardScanResponse* out) {
                    EncodeShardReply(page, out);
                    Sign(watch, out->mutable_header());
                  });
}

grpc::ServerUnaryReactor* ShardServiceImpl::ReadCatalogue(
    grpc::CallbackServerContext* context,
    const v1::ReadCatalogueRequest* request,
    v1::ReadCatalogueResponse* response) {
  const Stopwatch watch;
  auto* rpc = new UnaryCall(context, response, "ShardService/ReadCatalogue",
                            kCollectionDeadline, options_);
  const absl::Status admitted = Admit(rpc, *request);
  if (!admitted.ok()) return rpc->Refuse(admitted);
  shard_->ReadCatalogue(
      rpc->call(),
      Replier<Catalogue>(
          rpc, watch, response,
          [](const Catalogue& catalogue, v1::ReadCatalogueResponse* out) {
            EncodeCatalogue(catalogue, out->mutable_catalogue());
          }));
  return rpc;
}

grpc::ServerUnaryReactor* ShardServiceImpl::PutCatalogue(
    grpc::CallbackServerContext* context,
    const v1::PutCatalogueRequest* request,
    v1::PutCatalogueResponse* response) {
  const Stopwatch watch;
  auto* rpc = new UnaryCall(context, response, "ShardService/PutCatalogue",
                            kCollectionDeadline, options_);
  const absl::Status admitted = Admit(rpc, *request);
  if (!admitted.ok()) return rpc->Refuse(admitted);
  auto decoded = DecodeCatalogue(request->catalogue());
  if (!decoded.ok()) return rpc->Refuse(decoded.status());
  shard_->PutCatalogue(
      request->expected_version(), *std::move(decoded), rpc->call(),
      Replier<int64_t>(rpc, watch, response,
                       [](int64_t version, v1::PutCatalogueResponse* out) {
                         out->set_version(version);
                       }));
  return rpc;
}

grpc::ServerUnaryReactor* ShardServiceImpl::CollectionStats(
    grpc::CallbackServerContext* context,
    const v1::CollectionStatsRequest* request,
    v1::CollectionStatsResponse* response) {
  const Stopwatch watch;
  auto* rpc = new UnaryCall(context, response, "ShardService/CollectionStats",
                            kDescribeDeadline, options_);
  absl::Status admitted = Admit(rpc, *request);
  if (!admitted.ok()) return rpc->Refuse(admitted);
  admitted =
      ValidateCollectionReference(request->collection(), options_.limits);
  if (!admitted.ok()) return rpc->Refuse(admitted);
  shard_->CollectionStats(request->collection(), rpc->call(),
                          Replier<ShardCollectionStats>(rpc, watch, response));
  return rpc;
}

grpc::ServerUnaryReactor* ShardServiceImpl::Describe(
    grpc::CallbackServerContext* context,
    const v1::DescribeShardRequest* request,
    v1::DescribeShardResponse* response) {
  const Stopwatch watch;
  auto* rpc = new UnaryCall(context, response, "ShardService/Describe",
                            kDescribeDeadline, options_);
  const absl::Status admitted = Admit(rpc, *request);
  if (!admitted.ok()) return rpc->Refuse(admitted);
  shard_->Describe(rpc->call(),
                   Replier<ShardDescription>(rpc, watch, response));
  return rpc;
}

}  // namespace

std::unique_ptr<grpc::Service> MakeShardService(Shard* shard,
                                                RpcOptions options) {
  return std::make_unique<ShardServiceImpl>(shard, std::move(options));
}

std::unique_ptr<grpc::Service> MakeShardService(Shard* shard,
                                                const Limits& limits) {
  RpcOptions options;
  options.limits = limits;
  return MakeShardService(shard, std::move(options));
}

}  // namespace coterie
