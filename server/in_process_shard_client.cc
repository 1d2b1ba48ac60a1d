#include "server/in_process_shard_client.h"

#include <string>
#include <utility>
#include <vector>

namespace coterie {
namespace {

// Keeps the shard alive for as long as its scanner.
class ShardStream final : public PointStream {
 public:
  ShardStream(std::shared_ptr<Shard> shard,
              std::unique_ptr<Shard::Scanner> scanner)
      : shard_(std::move(shard)), scanner_(std::move(scanner)) {}

  void Next(Done<ScanPage> done) override { scanner_->Next(std::move(done)); }

 private:
  std::shared_ptr<Shard> shard_;
  std::unique_ptr<Shard::Scanner> scanner_;
};

class InProcessShardClient final : public ShardClient {
 public:
  InProcessShardClient(int32_t shard_id, std::shared_ptr<Shard> shard)
      : shard_id_(shard_id), shard_(std::move(shard)) {}

  int32_t shard_id() const override { return shard_id_; }
  std::string address() const override { return "in-process"; }

  void Search(std::shared_ptr<const SearchRequest> request, CallContext call,
              Done<ShardSearchReply> done) override {
    shard_->Search(std::move(request), std::move(call), std::move(done));
  }
  void Write(WriteBatch batch, CallContext call,
             Done<WriteReply> done) override {
    shard_->Write(std::move(batch), std::move(call), std::move(done));
  }
  void Get(GetRequest request, CallContext call, Done<GetReply> done) override {
    shard_->Get(std::move(request), std::move(call), std::move(done));
  }
  void Count(CountRequest request, CallContext call,
             Done<CountReply> done) override {
    shard_->Count(std::move(request), std::move(call), std::move(done));
  }
  std::unique_ptr<PointStream> Scan(ScanRequest request,
                                    CallContext call) override {
    auto scanner = shard_->Scan(std::move(request), std::move(call));
    return std::make_unique<ShardStream>(shard_, std::move(scanner));
  }
  void ReadCatalogue(CallContext call, Done<Catalogue> done) override {
    shard_->ReadCatalogue(std::move(call), std::move(done));
  }
  void PutCatalogue(int64_t expected_version, Catalogue catalogue,
                    CallContext call, Done<int64_t> done) override {
    shard_->PutCatalogue(expected_version, std::move(catalogue),
                         std::move(call), std::move(done));
  }
  void CollectionStats(std::string collection, CallContext call,
                       Done<ShardCollectionStats> done) override {
    shard_->CollectionStats(std::move(collection), std::move(call),
                            std::move(done));
  }
  void Describe(CallContext call, Done<ShardDescription> done) override {
    shard_->Describe(std::move(call),
                     [name = address(), done = std::move(done)](
                         absl::StatusOr<ShardDescription> reply) mutable {
                       if (reply.ok()) {
                         reply->address = name;
                       }
                       done(std::move(reply));
                     });
  }

  void BeginJob(JobBegin begin, CallContext call,
                Done<JobBegun> done) override {
    shard_->BeginJob(std::move(begin), std::move(call), std::move(done));
  }
  void StepJob(JobStep step, CallContext call, Done<JobAnswer> done) override {
    shard_->StepJob(std::move(step), std::move(call), std::move(done));
  }
  void LabelRows(JobLabel label, CallContext call,
                 Done<JobLabelled> done) override {
    shard_->LabelRows(std::move(label), std::move(call), std::move(done));
  }
  void EndJob(JobRef job, CallContext call, Done<bool> done) override {
    shard_->EndJob(std::move(job), std::move(call), std::move(done));
  }
  void ReadRecords(RecordsRequest request, CallContext call,
                   Done<std::vector<StoredRecord>> done) override {
    shard_->ReadRecords(std::move(request), std::move(call), std::move(done));
  }
  void PutRecord(RecordPut put, CallContext call, Done<int64_t> done) override {
    shard_->PutRecord(std::move(put), std::move(call), std::move(done));
  }

 private:
  const int32_t shard_id_;
  const std::shared_ptr<Shard> shard_;
};

}  // namespace

std::shared_ptr<ShardClient> MakeInProcessShardClient(
    int32_t shard_id, std::shared_ptr<Shard> shard) {
  return std::make_shared<InProcessShardClient>(shard_id, std::move(shard));
}

}  // namespace coterie
