// Jobs and their results as they are kept: records on shard 0, changed by
// compare-and-set, large things cut into several.
//
// Thread-safe. Calls wait for shard 0 until the call's deadline: only for
// threads that may block. Errors are those of the shard, which they name;
// NOT_FOUND for what is not there.

#ifndef COTERIE_COORDINATOR_JOB_STORE_H_
#define COTERIE_COORDINATOR_JOB_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/call.h"
#include "api/clustering.h"
#include "api/collection.h"
#include "api/job_info.h"
#include "api/training.h"
#include "coordinator/catalogue_store.h"
#include "coordinator/job_record.h"
#include "coordinator/shard_client.h"

namespace coterie {

class JobStore {
 public:
  JobStore(ShardSet shards, std::shared_ptr<CatalogueStore> catalogue)
      : shards_(std::move(shards)), catalogue_(std::move(catalogue)) {}

  // The collection, by the newest catalogue if the cached one lacks it.
  absl::StatusOr<CollectionSpec> Find(const std::string& collection,
                                      const CallContext& call) const;
  // All collections.
  absl::StatusOr<std::vector<CollectionSpec>> Collections(
      const CallContext& call) const;

  struct StoredJob {
    JobRecord record;
    int64_t version = 0;
  };
  absl::StatusOr<StoredJob> ReadJob(const CollectionSpec& spec,
                                    const std::string& name,
                                    const CallContext& call) const;
  // By name. Their requests are left out.
  absl::StatusOr<std::vector<JobInfo>> ListJobs(const CollectionSpec& spec,
                                                const CallContext& call) const;
  // The new version. ABORTED if the record is at another than `expected`.
  absl::StatusOr<int64_t> PutJob(const CollectionSpec& spec,
                                 const JobRecord& record, int64_t expected,
                                 const CallContext& call) const;

  // Keeps the bytes beside those that are there already; whoever names the
  // reference makes them count.
  absl::StatusOr<BlobRef> SaveBlob(const CollectionSpec& spec,
                                   absl::string_view owner,
                                   absl::string_view bytes,
                                   const CallContext& call) const;
  // DATA_LOSS if they are not those that were kept.
  absl::StatusOr<std::string> LoadBlob(const CollectionSpec& spec,
                                       absl::string_view owner,
                                       const BlobRef& blob,
                                       const CallContext& call) const;
  // Drops all of the owner's but those of `keep`.
  absl::Status DropBlobs(const CollectionSpec& spec, absl::string_view owner,
                         const BlobRef& keep, const CallContext& call) const;

  // 0: there is none of this name and kind.
  absl::StatusOr<int64_t> ResultVersion(const CollectionSpec& spec,
                                        JobKind kind, const std::string& name,
                                        const CallContext& call) const;
  // ABORTED if another was stored meanwhile.
  absl::Status PutResult(const CollectionSpec& spec, const JobResult& result,
                         int64_t expected, const CallContext& call) const;
  absl::StatusOr<Clustering> ReadClustering(const CollectionSpec& spec,
                                            const std::string& name,
                                            const CallContext& call) const;
  absl::StatusOr<TrainedModel> ReadModel(const CollectionSpec& spec,
                                         const std::string& name,
                                         const CallContext& call) const;
  // Names, in order.
  absl::StatusOr<std::vector<std::string>> ListResults(
      const CollectionSpec& spec, JobKind kind, const CallContext& call) const;
  // With its job, unless that is running: FAILED_PRECONDITION.
  absl::Status DeleteResult(const CollectionSpec& spec, JobKind kind,
                            const std::string& name,
                            const CallContext& call) const;

 private:
  ShardClient& shard0() const { return *shards_->front(); }
  absl::StatusOr<std::vector<StoredRecord>> Read(const CollectionSpec& spec,
                                                 std::string prefix,
                                                 bool with_values,
                                                 const CallContext& call) const;
  // The record of this very key.
  absl::StatusOr<StoredRecord> ReadOne(const CollectionSpec& spec,
                                       const std::string& key,
                                       const CallContext& call) const;
  // The bytes of a result, and how old they are.
  absl::StatusOr<std::string> ReadResult(const CollectionSpec& spec,
                                         JobKind kind, const std::string& name,
                                         const CallContext& call,
                                         double* age_seconds) const;
  absl::StatusOr<int64_t> Put(const CollectionSpec& spec, RecordPut put,
                              const CallContext& call) const;

  const ShardSet shards_;
  const std::shared_ptr<CatalogueStore> catalogue_;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_JOB_STORE_H_
