// What coordinators write down of a job and of its result, as bytes.
//
// Pure functions; any thread. Bytes carry a format and a checksum; what is
// damaged is DATA_LOSS.

#ifndef COTERIE_COORDINATOR_JOB_RECORD_H_
#define COTERIE_COORDINATOR_JOB_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/clustering.h"
#include "api/job_info.h"
#include "api/training.h"

namespace coterie {

// Bytes kept as several records (coordinator/job_store.h).
struct BlobRef {
  std::string generation;  // empty: none
  int64_t bytes = 0;
  uint64_t checksum = 0;

  friend bool operator==(const BlobRef&, const BlobRef&) = default;
};

// A job, whoever runs it. Changed by compare-and-set only: whoever raised
// `epoch` last is its owner.
struct JobRecord {
  JobInfo info;  // without collection, name and age
  JobRequest request;
  BlobRef checkpoint;
  int64_t rows_missing = 0;  // without weight or label
  // Of all owners so far.
  double seconds = 0;
  int64_t bytes_sent = 0;
  int64_t bytes_received = 0;
};

std::string EncodeJobRecord(const JobRecord& record);
absl::StatusOr<JobRecord> DecodeJobRecord(absl::string_view bytes);

std::string EncodeClustering(const Clustering& clustering);
absl::StatusOr<Clustering> DecodeClustering(absl::string_view bytes);

// What people should know of a result.
std::vector<std::string> WarningsOf(const KMeansOptions& options,
                                    const Clustering& clustering);

// Parameters included.
std::string EncodeTrainedModel(const TrainedModel& model);
absl::StatusOr<TrainedModel> DecodeTrainedModel(absl::string_view bytes);

std::string EncodeBlobRef(const BlobRef& blob);
absl::StatusOr<BlobRef> DecodeBlobRef(absl::string_view bytes);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_JOB_RECORD_H_
