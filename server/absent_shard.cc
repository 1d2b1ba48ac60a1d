#include "server/absent_shard.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/status_details.h"

namespace coterie {
namespace {

absl::Status NotSeen(int32_t shard_id) {
  return WithShard(
      absl::UnavailableError("has not answered since this coordinator began"),
      shard_id);
}

class NoPages final : public PointStream {
 public:
  explicit NoPages(int32_t shard_id) : shard_id_(shard_id) {}
  void Next(Done<ScanPage> done) override { done(NotSeen(shard_id_)); }

 private:
  const int32_t shard_id_;
};

class AbsentShard final : public ShardClient {
 public:
  explicit AbsentShard(int32_t shard_id) : shard_id_(shard_id) {}

  int32_t shard_id() const override { return shard_id_; }
  std::string address() const override { return "unknown"; }

  void Search(std::shared_ptr<const SearchRequest>, CallContext,
              Done<ShardSearchReply> done) override {
    done(NotSeen(shard_id_));
  }
  void Write(WriteBatch, CallContext, Done<WriteReply> done) override {
    done(NotSeen(shard_id_));
  }
  void Get(GetRequest, CallContext, Done<GetReply> done) override {
    done(NotSeen(shard_id_));
  }
  void Count(CountRequest, CallContext, Done<CountReply> done) override {
    done(NotSeen(shard_id_));
  }
  std::unique_ptr<PointStream> Scan(ScanRequest, CallContext) override {
    return std::make_unique<NoPages>(shard_id_);
  }
  void ReadCatalogue(CallContext, Done<Catalogue> done) override {
    done(NotSeen(shard_id_));
  }
  void PutCatalogue(int64_t, Catalogue, CallContext,
                    Done<int64_t> done) override {
    done(NotSeen(shard_id_));
  }
  void CollectionStats(std::string, CallContext,
                       Done<ShardCollectionStats> done) override {
    done(NotSeen(shard_id_));
  }
  void Describe(CallContext, Done<ShardDescription> done) override {
    done(NotSeen(shard_id_));
  }
  void BeginJob(JobBegin, CallContext, Done<JobBegun> done) override {
    done(NotSeen(shard_id_));
  }
  void StepJob(JobStep, CallContext, Done<JobAnswer> done) override {
    done(NotSeen(shard_id_));
  }
  void LabelRows(JobLabel, CallContext, Done<JobLabelled> done) override {
    done(NotSeen(shard_id_));
  }
  void EndJob(JobRef, CallContext, Done<bool> done) override {
    done(NotSeen(shard_id_));
  }
  void ReadRecords(RecordsRequest, CallContext,
                   Done<std::vector<StoredRecord>> done) override {
    done(NotSeen(shard_id_));
  }
  void PutRecord(RecordPut, CallContext, Done<int64_t> done) override {
    done(NotSeen(shard_id_));
  }

 private:
  const int32_t shard_id_;
};

}  // namespace

std::shared_ptr<ShardClient> MakeAbsentShard(int32_t shard_id) {
  return std::make_shared<AbsentShard>(shard_id);
}

}  // namespace coterie
