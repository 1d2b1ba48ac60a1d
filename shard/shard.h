// One shard: the points of the slots it owns, durable and searchable.
//
// Thread-safe. Work is admitted to bounded queues and runs on the threads of
// the shard, or of all shards of a process; `done` runs there too. Reads take a
// snapshot and never wait for writers. OK for a write means durable (synced)
// and visible to later reads.
//
// Errors of every call: NOT_FOUND for an unknown collection, ABORTED for one of
// another number than the request's; RESOURCE_EXHAUSTED
// at once when a queue is full; CANCELLED or DEADLINE_EXCEEDED when the call
// ended first; UNAVAILABLE after Stop().

#ifndef COTERIE_SHARD_SHARD_H_
#define COTERIE_SHARD_SHARD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/call.h"
#include "api/collection.h"
#include "api/job_messages.h"
#include "api/limits.h"
#include "api/search.h"
#include "api/shard_messages.h"

namespace coterie {

class RecordStore;
class SegmentDisk;
class WorkPool;

struct ShardOptions {
  int32_t shard_id = 0;
  int32_t shards_total = 1;
  // Names the cluster; stored at first open, compared at every later one.
  std::string cluster_uuid;
  // RocksDB folder of this shard, with that of its segment files in it; created
  // if absent.
  std::string path;
  Limits limits;
  // Threads that searches may have at once, and other reads too; together one
  // more (work_pool.h). >= 1; unused with `pool`.
  int32_t threads = 1;
  // Threads that this shard has in common with others; null: of its own.
  std::shared_ptr<WorkPool> pool = nullptr;
  // Searches that may wait, and as many other reads; more are refused.
  int32_t queue_capacity = 256;
  // Bytes of writes that may wait for the disk; more are refused.
  int64_t write_queue_bytes = int64_t{64} << 20;
  // Rows of the append-only tail before it is sealed; bounded by tail_bytes.
  int64_t tail_rows = 65536;
  int64_t tail_bytes = int64_t{64} << 20;
  // Rows of full tails that wait to be sealed; upserts that find more are
  // refused, so that writing cannot outrun sealing without end.
  int64_t unsealed_bytes = int64_t{256} << 20;
  // What sealing or merging segments may take beside the rows themselves;
  // larger merges are not done. Sealing a tail is done in any case.
  int64_t merge_bytes = int64_t{256} << 20;
  // Jobs that may have state here at once, and the memory of all of them
  // together beside the segments that they pin.
  int32_t jobs = 16;
  int64_t job_bytes = int64_t{1} << 30;
  // What indexes may take in memory, while they are built included; larger ones
  // are not built, and searches scan.
  int64_t index_bytes = int64_t{1} << 30;
  // Rows from which on a sealed segment gets its collection's indexes.
  int64_t index_rows = 4096;
  // Told of files that were refused or cannot be written; null: stderr.
  std::function<void(absl::string_view)> warn = nullptr;
  // What segment files lie on; null: the machine's disk. Outlives the shard.
  SegmentDisk* segment_disk = nullptr;
  // How tests put faults under the store; null: as it is.
  std::function<absl::StatusOr<std::unique_ptr<RecordStore>>(
      absl::string_view path)>
      open_store = nullptr;
};

class Shard {
 public:
  // Opens or creates the store, checks that it belongs to (cluster_uuid,
  // shard_id, shards_total) - FAILED_PRECONDITION naming both sides if not -
  // and loads: segment files, and from the store what was written since, or
  // all of it where files are missing or damaged, which is only warned of.
  // DATA_LOSS naming the key if a record is damaged. O(rows x dimension).
  static absl::StatusOr<std::unique_ptr<Shard>> Open(ShardOptions options);

  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;
  // Stop(), then closes the store.
  ~Shard();

  // Who this is; immutable.
  int32_t shard_id() const;
  const std::string& cluster_uuid() const;
  // Counts openings of the store: this one's number.
  int64_t incarnation() const;
  // Names the store, also when another takes its place (store_id.h).
  const std::string& store_id() const;

  // Refuses new work, lets admitted work end, returns when idle. Idempotent.
  void Stop();

  void Search(std::shared_ptr<const SearchRequest> request, CallContext call,
              Done<ShardSearchReply> done);
  void Write(WriteBatch batch, CallContext call, Done<WriteReply> done);
  void Get(GetRequest request, CallContext call, Done<GetReply> done);
  void Count(CountRequest request, CallContext call, Done<CountReply> done);

  // Pages of a scan at one sequence; outlived by the shard. Not thread-safe:
  // one Next at a time.
  class Scanner {
   public:
    virtual ~Scanner() = default;
    virtual void Next(Done<ScanPage> done) = 0;
  };
  std::unique_ptr<Scanner> Scan(ScanRequest request, CallContext call);

  void ReadCatalogue(CallContext call, Done<Catalogue> done);
  // Also FAILED_PRECONDITION naming both if the catalogue names another store
  // for this shard: then this one is not what the cluster's data is on.
  void PutCatalogue(int64_t expected_version, Catalogue catalogue,
                    CallContext call, Done<int64_t> done);
  void CollectionStats(std::string collection, CallContext call,
                       Done<ShardCollectionStats> done);
  void Describe(CallContext call, Done<ShardDescription> done);

  // Jobs and records: as shard/shard_jobs.h and shard/partition.h say. Steps
  // queue in a class of their own.
  void BeginJob(JobBegin begin, CallContext call, Done<JobBegun> done);
  void StepJob(JobStep step, CallContext call, Done<JobAnswer> done);
  // The same for a step that is kSgd, whatever it says.
  void StepSgdJob(JobStep step, CallContext call, Done<JobAnswer> done) {
    step.kind = JobKind::kSgd;
    StepJob(std::move(step), std::move(call), std::move(done));
  }
  void LabelRows(JobLabel label, CallContext call, Done<JobLabelled> done);
  void EndJob(JobRef job, CallContext call, Done<bool> done);
  void ReadRecords(RecordsRequest request, CallContext call,
                   Done<std::vector<StoredRecord>> done);
  void PutRecord(RecordPut put, CallContext call, Done<int64_t> done);

 private:
  class Impl;
  explicit Shard(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_SHARD_H_
