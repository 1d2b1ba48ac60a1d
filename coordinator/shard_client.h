// The seam between coordinator and shard: one shard as the coordinator sees it.
//
// Implementations: in-process (server/in_process_shard_client), fault-injecting
// (tests), gRPC (separate processes). Thread-safe. Every call is asynchronous:
// `done` runs exactly once, on any thread, also when the call cannot be made
// (UNAVAILABLE naming the shard). A full queue answers RESOURCE_EXHAUSTED at
// once; a passed deadline DEADLINE_EXCEEDED.

#ifndef COTERIE_COORDINATOR_SHARD_CLIENT_H_
#define COTERIE_COORDINATOR_SHARD_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/call.h"
#include "api/collection.h"
#include "api/job_messages.h"
#include "api/search.h"
#include "api/shard_messages.h"

namespace coterie {

// Pages of a scan, all read at one sequence. Not thread-safe: at most one
// Next() outstanding. Destroying it ends the scan; that may happen inside
// `done`, so an implementation touches nothing of itself after calling it.
class PointStream {
 public:
  virtual ~PointStream() = default;
  // The next page; after one with `end` set, Next must not be called.
  virtual void Next(Done<ScanPage> done) = 0;
};

// Steps of one job, one after the other, over one stream where the shard is in
// another process. Not thread-safe: at most one Step() outstanding. Destroying
// it ends the stream, and a step under way with it; that may not happen inside
// `done`.
class StepStream {
 public:
  virtual ~StepStream() = default;
  // As ShardClient::StepJob. After an error the next step goes over a new
  // stream.
  virtual void Step(JobStep step, CallContext call, Done<JobAnswer> done) = 0;
};

// May be let go of for the last time inside a `done`, so on a thread that runs
// one: whoever owns such threads ends them before dropping its reference.
class ShardClient {
 public:
  virtual ~ShardClient() = default;

  virtual int32_t shard_id() const = 0;
  // "in-process" or host:port, for people.
  virtual std::string address() const = 0;

  // REQUIRES: request's queries are vectors. The request outlives the call
  // because it is shared.
  virtual void Search(std::shared_ptr<const SearchRequest> request,
                      CallContext call, Done<ShardSearchReply> done) = 0;
  virtual void Write(WriteBatch batch, CallContext call,
                     Done<WriteReply> done) = 0;
  virtual void Get(GetRequest request, CallContext call,
                   Done<GetReply> done) = 0;
  virtual void Count(CountRequest request, CallContext call,
                     Done<CountReply> done) = 0;
  virtual std::unique_ptr<PointStream> Scan(ScanRequest request,
                                            CallContext call) = 0;

  // The shard's copy of the catalogue.
  virtual void ReadCatalogue(CallContext call, Done<Catalogue> done) = 0;
  // Replaces the copy if its version is `expected_version` (compare-and-set;
  // ABORTED naming both versions otherwise) and brings the shard's collections
  // in line: new ones appear empty, absent ones are dropped. Durable when done.
  // Replies with the version now stored.
  virtual void PutCatalogue(int64_t expected_version, Catalogue catalogue,
                            CallContext call, Done<int64_t> done) = 0;

  virtual void CollectionStats(std::string collection, CallContext call,
                               Done<ShardCollectionStats> done) = 0;
  virtual void Describe(CallContext call, Done<ShardDescription> done) = 0;

  // Pins the shard's rows for the job's owner; the same owner again gets the
  // same answer. ABORTED if a newer owner has the job, here and below.
  virtual void BeginJob(JobBegin begin, CallContext call,
                        Done<JobBegun> done) = 0;
  // The last step again gets the same answer again. FAILED_PRECONDITION if the
  // job is not there or has not what the step builds on; RESOURCE_EXHAUSTED
  // while it is busy.
  virtual void StepJob(JobStep step, CallContext call,
                       Done<JobAnswer> done) = 0;
  // For many steps. The default makes a call of each.
  // REQUIRES: the client outlives the stream.
  virtual std::unique_ptr<StepStream> OpenSteps();
  virtual void LabelRows(JobLabel label, CallContext call,
                         Done<JobLabelled> done) = 0;
  // Whether there was one.
  virtual void EndJob(JobRef job, CallContext call, Done<bool> done) = 0;

  // Named records of a collection; changed by compare-and-set, durable when
  // done. PutRecord replies with the version now stored, 0: none.
  virtual void ReadRecords(RecordsRequest request, CallContext call,
                           Done<std::vector<StoredRecord>> done) = 0;
  virtual void PutRecord(RecordPut put, CallContext call,
                         Done<int64_t> done) = 0;
};

// A call for each step.
class StepCalls final : public StepStream {
 public:
  explicit StepCalls(ShardClient* client) : client_(client) {}
  void Step(JobStep step, CallContext call, Done<JobAnswer> done) override {
    client_->StepJob(std::move(step), std::move(call), std::move(done));
  }

 private:
  ShardClient* const client_;
};

inline std::unique_ptr<StepStream> ShardClient::OpenSteps() {
  return std::make_unique<StepCalls>(this);
}

// All shards of a cluster: element i is shard i.
using ShardSet =
    std::shared_ptr<const std::vector<std::shared_ptr<ShardClient>>>;

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_SHARD_CLIENT_H_
