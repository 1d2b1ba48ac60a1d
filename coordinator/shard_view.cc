#include "coordinator/shard_view.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/collection.h"
#include "api/status_details.h"

namespace coterie {
namespace {

// Names the shard in whatever fails.
template <typename T>
Done<T> Naming(int32_t shard_id, Done<T> done) {
  return [shard_id, done = std::move(done)](absl::StatusOr<T> reply) mutable {
    if (!reply.ok()) {
      done(WithShard(reply.status(), shard_id));
      return;
    }
    done(std::move(reply));
  };
}

class ShardView final : public ShardClient {
 public:
  explicit ShardView(std::shared_ptr<ShardClient> shard)
      : shard_(std::move(shard)), id_(shard_->shard_id()) {}

  int32_t shard_id() const override { return 0; }
  std::string address() const override { return shard_->address(); }

  void Search(std::shared_ptr<const SearchRequest> request, CallContext call,
              Done<ShardSearchReply> done) override {
    shard_->Search(std::move(request), std::move(call),
                   [id = id_, done = std::move(done)](
                       absl::StatusOr<ShardSearchReply> reply) mutable {
                     if (!reply.ok()) {
                       done(WithShard(reply.status(), id));
                       return;
                     }
                     if (reply->shard_id == id) {
                       reply->shard_id = 0;
                     }
                     done(std::move(reply));
                   });
  }
  void Write(WriteBatch /*batch*/, CallContext /*call*/,
             Done<WriteReply> done) override {
    done(RefusedByView(id_));
  }
  void Get(GetRequest request, CallContext call, Done<GetReply> done) override {
    shard_->Get(std::move(request), std::move(call),
                Naming(id_, std::move(done)));
  }
  void Count(CountRequest request, CallContext call,
             Done<CountReply> done) override {
    shard_->Count(std::move(request), std::move(call),
                  Naming(id_, std::move(done)));
  }
  std::unique_ptr<PointStream> Scan(ScanRequest request,
                                    CallContext call) override {
    return shard_->Scan(std::move(request), std::move(call));
  }
  void ReadCatalogue(CallContext call, Done<Catalogue> done) override {
    shard_->ReadCatalogue(std::move(call),
                          [id = id_, done = std::move(done)](
                              absl::StatusOr<Catalogue> reply) mutable {
                            if (!reply.ok()) {
                              done(WithShard(reply.status(), id));
                              return;
                            }
                            for (CollectionSpec& spec : reply->collections) {
                              for (int32_t& owner : spec.owner) {
                                owner = owner == id ? 0 : kElsewhere;
                              }
                            }
                            done(std::move(reply));
                          });
  }
  void PutCatalogue(int64_t /*expected_version*/, Catalogue /*catalogue*/,
                    CallContext /*call*/, Done<int64_t> done) override {
    done(RefusedByView(id_));
  }
  void CollectionStats(std::string collection, CallContext call,
                       Done<ShardCollectionStats> done) override {
    shard_->CollectionStats(std::move(collection), std::move(call),
                            Naming(id_, std::move(done)));
  }
  void Describe(CallContext call, Done<ShardDescription> done) override {
    shard_->Describe(std::move(call), Naming(id_, std::move(done)));
  }
  void BeginJob(JobBegin /*begin*/, CallContext /*call*/,
                Done<JobBegun> done) override {
    done(RefusedByView(id_));
  }
  void StepJob(JobStep /*step*/, CallContext /*call*/,
               Done<JobAnswer> done) override {
    done(RefusedByView(id_));
  }
  void LabelRows(JobLabel /*label*/, CallContext /*call*/,
                 Done<JobLabelled> done) override {
    done(RefusedByView(id_));
  }
  void EndJob(JobRef /*job*/, CallContext /*call*/, Done<bool> done) override {
    done(RefusedByView(id_));
  }
  void ReadRecords(RecordsRequest request, CallContext call,
                   Done<std::vector<StoredRecord>> done) override {
    shard_->ReadRecords(std::move(request), std::move(call),
                        Naming(id_, std::move(done)));
  }
  void PutRecord(RecordPut /*put*/, CallContext /*call*/,
                 Done<int64_t> done) override {
    done(RefusedByView(id_));
  }

 private:
  const std::shared_ptr<ShardClient> shard_;
  const int32_t id_;
};

}  // namespace

std::shared_ptr<ShardClient> MakeShardView(std::shared_ptr<ShardClient> shard) {
  return std::make_shared<ShardView>(std::move(shard));
}

absl::Status RefusedByView(int32_t shard_id) {
  return absl::FailedPreconditionError(
      absl::StrCat("this is shard ", shard_id,
                   " by itself, which serves reads of its own rows; send "
                   "writes and changes of collections to a coordinator"));
}

void NameShard(int32_t shard_id, SearchReply* reply) {
  for (ShardCertificate& certificate : reply->certificate.shards) {
    certificate.shard_id = shard_id;
  }
  for (auto& times : reply->shard_times) {
    times.first = shard_id;
  }
}

}  // namespace coterie
