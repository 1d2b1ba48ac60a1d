// What coordinator and shard say to each other about long-running jobs, in
// domain types. Plain data.
//
// A job lives on shards as a pinned snapshot of their rows and what its steps
// keep between them. It belongs to an owner: whoever began it with the highest
// epoch. Records are small named values within a collection, in which
// coordinators keep checkpoints and results.

#ifndef COTERIE_API_JOB_MESSAGES_H_
#define COTERIE_API_JOB_MESSAGES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "api/filter.h"
#include "api/link_use.h"

namespace coterie {

enum class JobKind : uint8_t {
  kKMeans = 1,
  kSgd = 2,
};

// Which job, and for which of its owners.
struct JobRef {
  std::string collection;
  uint32_t number = 0;  // as in WriteBatch
  std::string name;     // within the collection; 1..kMostRecordKeyBytes bytes
  int64_t epoch = 0;    // >= 1

  friend bool operator==(const JobRef&, const JobRef&) = default;
};

// Pins the shard's rows as they are now.
struct JobBegin {
  JobRef job;
  JobKind kind = JobKind::kKMeans;
  // Rows that take part; empty: all.
  Filter filter;
  // A numeric attribute that weighs each row, >= 0; empty: 1 each.
  std::string weight_attribute = {};
  // A numeric attribute that is each row's label. kSgd only, and needed there.
  std::string label_attribute = {};
  // Rows without the attribute are left out; otherwise they fail the job.
  bool skip_missing = false;
  // The shard forgets the job when its owner has been silent for so long.
  absl::Duration lease;
  // Threads that a step may have at once; 0: all of the shard's.
  int32_t threads = 0;
  // What a step would like to keep for each row, beside what it must: granted
  // as far as memory goes. Bytes, >= 0.
  int64_t row_bytes = 0;
  // Go on with the rows that an older owner has pinned, if they are still
  // there.
  bool resume = false;
};

struct JobBegun {
  int64_t sequence = 0;      // that was pinned
  int64_t rows = 0;          // that take part
  int64_t rows_missing = 0;  // left out: without the attribute
};

// One step. Repeating the last one repeats its answer.
struct JobStep {
  JobRef job;
  // What the kind says (training/kmeans_codec.h, sgd_codec.h). Not null.
  std::shared_ptr<const std::string> step;
  JobKind kind = JobKind::kKMeans;
};

struct JobAnswer {
  std::string partial;      // what the kind says
  double work_seconds = 0;  // of the step, without waiting; finite, >= 0
  LinkUse link = {};        // filled by the client that called
};

// Writes each row's label, as the last step left it, as an attribute of its
// point. Points deleted since are left alone.
struct JobLabel {
  JobRef job;
  std::string attribute;
};

struct JobLabelled {
  int64_t labelled = 0;
  int64_t missing = 0;  // rows whose point is gone
};

inline constexpr int64_t kMostRecordKeyBytes = 255;
// A record's value; larger things are kept in several.
inline constexpr int64_t kMostRecordBytes = int64_t{1} << 20;

struct RecordsRequest {
  std::string collection;
  uint32_t number = 0;  // as in WriteBatch
  // Records whose key begins so, by key.
  std::string prefix;
  bool with_values = false;
};

struct StoredRecord {
  std::string key;
  // Rises with each change of the record.
  int64_t version = 0;
  std::string value;  // if asked for
  // Since that change, by the shard's clock; >= 0.
  double age_seconds = 0;
};

struct RecordPut {
  std::string collection = {};
  uint32_t number = 0;   // as in WriteBatch
  std::string key = {};  // 1..kMostRecordKeyBytes bytes
  // ABORTED naming both if the record's version is another; 0: there is none
  // yet. Without: whatever is there.
  std::optional<int64_t> expected_version = {};
  // Without: the record is deleted.
  std::optional<std::string> value = {};
};

}  // namespace coterie

#endif  // COTERIE_API_JOB_MESSAGES_H_
