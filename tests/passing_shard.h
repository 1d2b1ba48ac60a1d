// A shard's client that passes every call on: what tests change of one derives
// from it. Test-only; thread-safe.

#ifndef COTERIE_TESTS_PASSING_SHARD_H_
#define COTERIE_TESTS_PASSING_SHARD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/shard_client.h"

namespace coterie {

class PassingShard : public ShardClient {
 public:
  explicit PassingShard(std::shared_ptr<ShardClient> inner)
      : inner_(std::move(inner)) {}

  int32_t shard_id() const override { return inner_->shard_id(); }
  std::string address() const override { return inner_->address(); }
  void Search(std::shared_ptr<const SearchRequest> request, CallContext call,
              Done<ShardSearchReply> done) override {
    inner_->Search(std::move(request), std::move(call), std::move(done));
  }
  void Write(WriteBatch batch, CallContext call,
             Done<WriteReply> done) override {
    inner_->Write(std::move(batch), std::move(call), std::move(done));
  }
  void Get(GetRequest request, CallContext call, Done<GetReply> done) override {
    inner_->Get(std::move(request), std::move(call), std::move(done));
  }
  void Count(CountRequest request, CallContext call,
             Done<CountReply> done) override {
    inner_->Count(std::move(request), std::move(call), std::move(done));
  }
  std::unique_ptr<PointStream> Scan(ScanRequest request,
                                    CallContext call) override {
    return inner_->Scan(std::move(request), std::move(call));
  }
  void ReadCatalogue(CallContext call, Done<Catalogue> done) override {
    inner_->ReadCatalogue(std::move(call), std::move(done));
  }
  void PutCatalogue(int64_t expected_version, Catalogue catalogue,
                    CallContext call, Done<int64_t> done) override {
    inner_->PutCatalogue(expected_version, std::move(catalogue),
                         std::move(call), std::move(done));
  }
  void CollectionStats(std::string collection, CallContext call,
                       Done<ShardCollectionStats> done) override {
    inner_->CollectionStats(std::move(collection), std::move(call),
                            std::move(done));
  }
  void Describe(CallContext call, Done<ShardDescription> done) override {
    inner_->Describe(std::move(call), std::move(done));
  }
  void BeginJob(JobBegin begin, CallContext call,
                Done<JobBegun> done) override {
    inner_->BeginJob(std::move(begin), std::move(call), std::move(done));
  }
  void StepJob(JobStep step, CallContext call, Done<JobAnswer> done) override {
    inner_->StepJob(std::move(step), std::move(call), std::move(done));
  }
  void LabelRows(JobLabel label, CallContext call,
                 Done<JobLabelled> done) override {
    inner_->LabelRows(std::move(label), std::move(call), std::move(done));
  }
  void EndJob(JobRef job, CallContext call, Done<bool> done) override {
    inner_->EndJob(std::move(job), std::move(call), std::move(done));
  }
  void ReadRecords(RecordsRequest request, CallContext call,
                   Done<std::vector<StoredRecord>> done) override {
    inner_->ReadRecords(std::move(request), std::move(call), std::move(done));
  }
  void PutRecord(RecordPut put, CallContext call, Done<int64_t> done) override {
    inner_->PutRecord(std::move(put), std::move(call), std::move(done));
  }

 protected:
  ShardClient* inner() const { return inner_.get(); }

 private:
  const std::shared_ptr<ShardClient> inner_;
};

}  // namespace coterie

#endif  // COTERIE_TESTS_PASSING_SHARD_H_
