// Builds the indexes that collections are to have over their sealed segments,
// one after the other, on a thread of its own and of low priority.
//
// Start and Stop by one thread; notes, states and counts from any.
//
// A tree wants the rows of its segment in its own order. So the segment is
// written anew in that order, beside the old one, which it then replaces
// (docs/adr/0010); writes go on meanwhile. Other structures come to the segment
// as it is. An index counts as soon as it is built; its file follows, and if it
// cannot be written the index serves from memory, the cause is reported and the
// attempt repeated after 1 s, 2 s, ... 60 s. What is built over a segment that
// is merged away meanwhile is lost with it.
//
// What FAISS refuses, or cannot make of so few rows, is not tried again while
// the shard runs, and its note says why.
//
// An index is not begun if what it is expected to take, to build and to keep,
// and what the shard's indexes have, is together over the budget; that is said
// in its note, and looked at again whenever segments change.

#ifndef COTERIE_SHARD_INDEX_BUILDER_H_
#define COTERIE_SHARD_INDEX_BUILDER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/collection.h"
#include "api/shard_messages.h"
#include "shard/collection_state.h"
#include "shard/partition.h"
#include "shard/segment.h"
#include "shard/segment_index.h"
#include "sync/mutex.h"

namespace coterie {

// What an index over so many rows takes, as far as can be said before.
struct IndexMemory {
  int64_t kept = 0;      // once it is built
  int64_t building = 0;  // at most, meanwhile, `kept` included
};
IndexMemory ExpectedMemory(const IndexSpec& spec, const RowShape& shape,
                           int64_t rows);

class IndexBuilder {
 public:
  // `warn` is told once of each failure that is not the last one's repetition.
  // The partition outlives the builder, and neither keeper nor log works before
  // it is made.
  IndexBuilder(Partition* partition, SegmentTuning tuning, int64_t budget_bytes,
               std::function<void(absl::string_view)> warn);
  // Stop().
  ~IndexBuilder();

  void Start();
  // Ends with the step at hand: seconds, if it is a large segment. Idempotent.
  void Stop();

  // How far the indexes of a collection are built in a snapshot of it.
  std::vector<IndexState> States(const CollectionSnapshot& snapshot) const;
  // Attempts to write files that failed.
  int64_t failures() const { return failures_.load(); }

 private:
  using Clock = std::chrono::steady_clock;
  using Key = std::pair<uint32_t, IndexKind>;  // collection and kind

  // An index whose file could not be written yet.
  struct Unsaved {
    std::shared_ptr<Segment> segment;
    std::shared_ptr<const SegmentIndex> index;
  };

  void Loop();
  bool stopping() const { return stopping_.load(); }
  // Does what can be done now.
  void Work();
  // Builds one that is missing and within the budget; whether there was one.
  bool BuildNext();
  void Build(const Partition::MissingIndex& missing);
  absl::Status BuildTree(const Partition::MissingIndex& missing);
  // Gives it to the segment and writes its file.
  void Finish(const Partition::MissingIndex& missing,
              std::shared_ptr<SegmentIndex> index);
  // The segment in the tree's order, with its tree.
  absl::StatusOr<std::shared_ptr<Segment>> Relaid(
      const Partition::MissingIndex& missing);
  void BuildHashes(const Partition::MissingIndex& missing);
  absl::Status BuildFaiss(const Partition::MissingIndex& missing);
  // Why it is never built; empty: it can be.
  std::string Refusal(const Partition::MissingIndex& missing) const;
  // Writes the file; if that fails, later.
  void Save(std::shared_ptr<Segment> segment,
            std::shared_ptr<const SegmentIndex> index);
  void SaveUnsaved();
  void SetNotes(absl::flat_hash_map<Key, std::string> notes);
  void NoteFailure(absl::string_view what, const absl::Status& status);

  Partition* const partition_;
  const SegmentTuning tuning_;
  const int64_t budget_bytes_;
  const std::function<void(absl::string_view)> warn_;
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> failures_{0};

  // Of the builder's thread.
  std::vector<Unsaved> unsaved_;
  // By number of the segment's file.
  std::map<std::pair<int64_t, IndexKind>, std::string> refused_;
  Clock::duration pause_{};
  Clock::time_point retry_at_{};  // after a failure
  std::string last_warning_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = true;
  absl::flat_hash_map<Key, std::string> notes_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_INDEX_BUILDER_H_
