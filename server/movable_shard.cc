#include "server/movable_shard.h"

namespace coterie {
namespace {

// Keeps the client alive for as long as its stream.
class HeldStream final : public PointStream {
 public:
  HeldStream(std::shared_ptr<ShardClient> client,
             std::unique_ptr<PointStream> stream)
      : client_(std::move(client)), stream_(std::move(stream)) {}

  void Next(Done<ScanPage> done) override { stream_->Next(std::move(done)); }

 private:
  const std::shared_ptr<ShardClient> client_;
  const std::unique_ptr<PointStream> stream_;
};

// A stream to the target of the moment.
class MovableSteps final : public StepStream {
 public:
  explicit MovableSteps(const MovableShard* shard) : shard_(shard) {}

  void Step(JobStep step, CallContext call, Done<JobAnswer> done) override {
    std::shared_ptr<ShardClient> target = shard_->target();
    if (target != client_) {
      stream_ = target->OpenSteps();
      client_ = std::move(target);
    }
    stream_->Step(std::move(step), std::move(call), std::move(done));
  }

 private:
  const MovableShard* const shard_;
  std::shared_ptr<ShardClient> client_;  // outlives its stream
  std::unique_ptr<StepStream> stream_;
};

}  // namespace

void MovableShard::Retarget(std::shared_ptr<ShardClient> target) {
  // The old one may go with its last reference: not under the lock.
  MutexLock lock(&mu_);
  target_.swap(target);
}

void MovableShard::Search(std::shared_ptr<const SearchRequest> request,
                          CallContext call, Done<ShardSearchReply> done) {
  target()->Search(std::move(request), std::move(call), std::move(done));
}

void MovableShard::Write(WriteBatch batch, CallContext call,
                         Done<WriteReply> done) {
  target()->Write(std::move(batch), std::move(call), std::move(done));
}

void MovableShard::Get(GetRequest request, CallContext call,
                       Done<GetReply> done) {
  target()->Get(std::move(request), std::move(call), std::move(done));
}

void MovableShard::Count(CountRequest request, CallContext call,
                         Done<CountReply> done) {
  target()->Count(std::move(request), std::move(call), std::move(done));
}

std::unique_ptr<PointStream> MovableShard::Scan(ScanRequest request,
                                                CallContext call) {
  std::shared_ptr<ShardClient> client = target();
  std::unique_ptr<PointStream> stream =
      client->Scan(std::move(request), std::move(call));
  return std::make_unique<HeldStream>(std::move(client), std::move(stream));
}

void MovableShard::ReadCatalogue(CallContext call, Done<Catalogue> done) {
  target()->ReadCatalogue(std::move(call), std::move(done));
}

void MovableShard::PutCatalogue(int64_t expected_version, Catalogue catalogue,
                                CallContext call, Done<int64_t> done) {
  target()->PutCatalogue(expected_version, std::move(catalogue),
                         std::move(call), std::move(done));
}

void MovableShard::CollectionStats(std::string collection, CallContext call,
                                   Done<ShardCollectionStats> done) {
  target()->CollectionStats(std::move(collection), std::move(call),
                            std::move(done));
}

void MovableShard::Describe(CallContext call, Done<ShardDescription> done) {
  target()->Describe(std::move(call), std::move(done));
}

void MovableShard::BeginJob(JobBegin begin, CallContext call,
                            Done<JobBegun> done) {
  target()->BeginJob(std::move(begin), std::move(call), std::move(done));
}

void MovableShard::StepJob(JobStep step, CallContext call,
                           Done<JobAnswer> done) {
  target()->StepJob(std::move(step), std::move(call), std::move(done));
}

std::unique_ptr<StepStream> MovableShard::OpenSteps() {
  return std::make_unique<MovableSteps>(this);
}

void MovableShard::LabelRows(JobLabel label, CallContext call,
                             Done<JobLabelled> done) {
  target()->LabelRows(std::move(label), std::move(call), std::move(done));
}

void MovableShard::EndJob(JobRef job, CallContext call, Done<bool> done) {
  target()->EndJob(std::move(job), std::move(call), std::move(done));
}

void MovableShard::ReadRecords(RecordsRequest request, CallContext call,
                               Done<std::vector<StoredRecord>> done) {
  target()->ReadRecords(std::move(request), std::move(call), std::move(done));
}

void MovableShard::PutRecord(RecordPut put, CallContext call,
                             Done<int64_t> done) {
  target()->PutRecord(std::move(put), std::move(call), std::move(done));
}

}  // namespace coterie
