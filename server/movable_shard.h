// A shard as a coordinator keeps it for good, while the address that it is
// reached by may change, or be unknown for a time.
//
// Thread-safe. A call keeps the client that it began with.

#ifndef COTERIE_SERVER_MOVABLE_SHARD_H_
#define COTERIE_SERVER_MOVABLE_SHARD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "coordinator/shard_client.h"
#include "sync/mutex.h"

namespace coterie {

class MovableShard final : public ShardClient {
 public:
  // REQUIRES: target is not null.
  MovableShard(int32_t shard_id, std::shared_ptr<ShardClient> target)
      : shard_id_(shard_id), target_(std::move(target)) {}

  void Retarget(std::shared_ptr<ShardClient> target);

  int32_t shard_id() const override { return shard_id_; }
  std::string address() const override { return target()->address(); }

  void Search(std::shared_ptr<const SearchRequest> request, CallContext call,
              Done<ShardSearchReply> done) override;
  void Write(WriteBatch batch, CallContext call,
             Done<WriteReply> done) override;
  void Get(GetRequest request, CallContext call, Done<GetReply> done) override;
  void Count(CountRequest request, CallContext call,
             Done<CountReply> done) override;
  std::unique_ptr<PointStream> Scan(ScanRequest request,
                                    CallContext call) override;
  void ReadCatalogue(CallContext call, Done<Catalogue> done) override;
  void PutCatalogue(int64_t expected_version, Catalogue catalogue,
                    CallContext call, Done<int64_t> done) override;
  void CollectionStats(std::string collection, CallContext call,
                       Done<ShardCollectionStats> done) override;
  void Describe(CallContext call, Done<ShardDescription> done) override;
  void BeginJob(JobBegin begin, CallContext call, Done<JobBegun> done) override;
  void StepJob(JobStep step, CallContext call, Done<JobAnswer> done) override;
  std::unique_ptr<StepStream> OpenSteps() override;
  void LabelRows(JobLabel label, CallContext call,
                 Done<JobLabelled> done) override;
  void EndJob(JobRef job, CallContext call, Done<bool> done) override;
  void ReadRecords(RecordsRequest request, CallContext call,
                   Done<std::vector<StoredRecord>> done) override;
  void PutRecord(RecordPut put, CallContext call, Done<int64_t> done) override;

  std::shared_ptr<ShardClient> target() const {
    MutexLock lock(&mu_);
    return target_;
  }

 private:
  const int32_t shard_id_;
  mutable Mutex mu_;
  std::shared_ptr<ShardClient> target_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coterie

#endif  // COTERIE_SERVER_MOVABLE_SHARD_H_
