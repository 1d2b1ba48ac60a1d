// What coordinator and shard say to each other besides search, in domain types.
// Plain data.

#ifndef COTERIE_API_SHARD_MESSAGES_H_
#define COTERIE_API_SHARD_MESSAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/collection.h"
#include "api/filter.h"
#include "api/link_use.h"
#include "api/point.h"

namespace coterie {

// Names one write of one client, so that a repeat of it is known. Sequences of
// a client rise from one write to the next; a shard takes a write whose
// sequence is not above the client's last in a slot for a repeat.
struct RequestId {
  std::string client_id;  // 1..kMostClientIdBytes bytes
  int64_t sequence = 0;   // >= 0

  friend bool operator==(const RequestId&, const RequestId&) = default;
};
inline constexpr int64_t kMostClientIdBytes = 64;

// New attributes of a stored point.
struct AttributeUpdate {
  PointId id = 0;
  Attributes attributes;
};

enum class AttributeMode {
  kMerge,    // named attributes are set, others stay
  kReplace,  // they become the whole set
};

// Upserts and deletes of one shard's points, or updates alone, or alone what is
// to be deleted by its attributes. Validated whole
// by the sender; the shard checks collection, dimension and slot ownership
// again, and the limits of merged attributes.
struct WriteBatch {
  std::string collection;
  std::vector<Point> upserts;
  std::vector<PointId> deletes;
  std::vector<AttributeUpdate> updates = {};
  AttributeMode mode = AttributeMode::kMerge;  // of updates
  std::optional<RequestId> request_id = {};
  // The number that the sender knows the collection by; a shard that knows it
  // by another, because it was dropped and made anew, answers ABORTED. 0: any.
  uint32_t number = 0;
  // Not empty: every point that it admits is deleted, slot by slot.
  Filter delete_where = {};
};

// Counts are of what this arrival of the request did.
struct WriteReply {
  int64_t upserted = 0;
  int64_t deleted = 0;   // ids that were stored
  int64_t sequence = 0;  // visible to every later read
  int64_t updated = 0;
  std::vector<PointId> missing = {};  // of updates: ids that are not stored
  // Items left alone because their slot had applied the request before.
  int64_t duplicates = 0;
};

struct GetRequest {
  std::string collection;
  std::vector<PointId> ids;
  bool with_vectors = false;
  AttributeSelector with_attributes;
  uint32_t number = 0;  // as in WriteBatch
};

struct GetReply {
  std::vector<Point> points;  // found, in the order asked
  std::vector<PointId> missing;
  LinkUse link = {};  // filled by the client that called
};

struct CountRequest {
  std::string collection;
  Filter filter;
  uint32_t number = 0;  // as in WriteBatch
};

struct CountReply {
  int64_t count = 0;
};

struct ScanRequest {
  std::string collection;
  int32_t slice = 0;
  int32_t slices = 1;
  bool with_vectors = false;
  AttributeSelector with_attributes;
  Filter filter;
  int64_t limit = 0;    // 0: none
  uint32_t number = 0;  // as in WriteBatch
};

struct ScanPage {
  std::vector<Point> points;  // by slot, then id
  bool end = false;           // no further page
};

// How far one index of a collection is built on a shard.
struct IndexState {
  IndexKind kind = IndexKind::kTree;
  int32_t segments = 0;  // that are to have a structure
  int32_t segments_ready = 0;
  int64_t rows = 0;
  int64_t rows_ready = 0;
  int64_t bytes = 0;
  int64_t bytes_expected = 0;
  // What is being built, or why nothing is; for people.
  std::string note = {};

  friend bool operator==(const IndexState&, const IndexState&) = default;
};

struct ShardCollectionStats {
  int32_t shard_id = 0;
  int64_t points = 0;
  int64_t dead_rows = 0;
  int32_t sealed_segments = 0;
  int64_t tail_rows = 0;
  int64_t memory_bytes = 0;
  int32_t slots = 0;
  int64_t sequence = 0;
  std::vector<IndexState> indexes = {};  // in the spec's order
};

// Kinds of work that a shard queues, each within a bound of its own.
enum class WorkClass {
  kSearch,
  kRead,  // points by id, counts and pages of scans
  kJob,   // steps of jobs
};
inline constexpr int kWorkClasses = 3;

// "search", "read" or "job".
inline const char* WorkClassName(WorkClass work_class) {
  switch (work_class) {
    case WorkClass::kSearch:
      return "search";
    case WorkClass::kRead:
      return "read";
    case WorkClass::kJob:
      return "job";
  }
  return "";
}

// The queue of one class. Counts are since the shard's start.
struct QueueState {
  WorkClass work_class = WorkClass::kSearch;
  int32_t length = 0;  // waiting now
  int32_t capacity = 0;
  int64_t refused = 0;      // because `capacity` waited
  int64_t taken = 0;        // from the queue
  double wait_seconds = 0;  // of those, together

  friend bool operator==(const QueueState&, const QueueState&) = default;
};

// The files of a shard's sealed segments.
struct SegmentFilesState {
  int64_t in_use = 0;  // that the manifest which counts names
  // At start: files missing or damaged, whose rows were read from the store.
  int64_t refused = 0;
  int64_t write_failures = 0;  // since the start

  friend bool operator==(const SegmentFilesState&,
                         const SegmentFilesState&) = default;
};

struct ShardDescription {
  enum class State { kServing, kLoading, kUnreachable };
  int32_t shard_id = 0;
  std::string address;
  State state = State::kServing;
  std::string reason;
  std::string cluster_uuid;
  int32_t shards_total = 0;  // as this shard's identity says
  // Of its store, made with it at random; empty while loading.
  std::string store_id = {};
  int64_t catalogue_version = 0;
  int64_t incarnation = 0;
  int64_t sequence = 0;
  int64_t points = 0;
  int64_t memory_bytes = 0;
  int32_t queue_length = 0;  // searches that wait, and how many may
  int32_t queue_capacity = 0;
  int32_t threads = 0;
  std::vector<QueueState> queues = {};  // each class once; none while loading
  SegmentFilesState segment_files = {};
};

}  // namespace coterie

#endif  // COTERIE_API_SHARD_MESSAGES_H_
