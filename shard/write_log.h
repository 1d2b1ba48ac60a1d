// The order of a shard's writes, and what makes them durable.
//
// Thread-safe. Entries are applied by one thread, in the order in which they
// were appended; `done` says OK once an entry is durable and visible.
//
// The entry's unit is one slot's mutations, as it would be one record of one
// partition of a replicated log: an implementation over such a log sends each,
// applies them as they come back, and answers when the last of them is applied.

#ifndef COTERIE_SHARD_WRITE_LOG_H_
#define COTERIE_SHARD_WRITE_LOG_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "api/call.h"
#include "api/filter.h"
#include "api/point.h"
#include "api/shard_messages.h"
#include "index/vectors.h"
#include "sync/mutex.h"

namespace coterie {

// Upserts of one slot, then deletes; applied in order, so the last one of an
// id counts. Updates come without the others.
struct SlotMutations {
  int32_t slot = 0;
  std::vector<Point> upserts;
  std::vector<PointId> deletes;
  std::vector<AttributeUpdate> updates = {};
  // With LogEntry::where: the writes that the slot had seen when `deletes` were
  // found.
  int64_t seen_offset = 0;
};

struct LogEntry {
  uint32_t collection = 0;  // its number
  std::vector<SlotMutations> slots;
  AttributeMode mode = AttributeMode::kMerge;  // of updates
  // Slots that have applied it, or a later one of its client, skip the entry.
  std::optional<RequestId> request = {};
  // Not empty: deletes are of points that it admits, and those that it does not
  // admit any more stay.
  Filter where = {};

  // What it takes in memory and on disk, about.
  int64_t Bytes() const;
};

// What the log's entries change. Called by the log's thread only.
class LogSink {
 public:
  virtual ~LogSink() = default;

  // Makes a group of entries durable together and then visible together, in
  // order; replies[i] says what entries[i] did, or why it alone was refused
  // (NOT_FOUND: its collection was dropped; INVALID_ARGUMENT: merged attributes
  // over a limit). An error: the store failed, none of the group is visible,
  // and what the disk holds of it is unknown.
  virtual absl::Status ApplyGroup(
      absl::Span<const LogEntry* const> entries,
      absl::Span<absl::StatusOr<WriteReply>> replies) = 0;
};

class WriteLog {
 public:
  // Runs between groups, on the applying thread. Gets OK, or why it must do
  // nothing; what it returns, if an error, ends all writing like a failed
  // ApplyGroup.
  using Task = absl::AnyInvocable<absl::Status(const absl::Status& admitted)>;

  virtual ~WriteLog() = default;

  // RESOURCE_EXHAUSTED at once if too many bytes wait. CANCELLED or
  // DEADLINE_EXCEEDED if the call ended before the entry's turn came.
  // UNAVAILABLE naming the first failure once the store has failed, until the
  // shard is opened again; also after Stop().
  virtual void Append(LogEntry entry, CallContext call,
                      Done<WriteReply> done) = 0;

  // Runs `task` in order with appended entries: how the catalogue changes.
  // `bytes` count like an entry's.
  virtual void Run(int64_t bytes, CallContext call, Task task) = 0;

  // Why nothing can be written any more; OK while it can.
  virtual absl::Status health() const = 0;

  // Refuses new entries, applies those appended. Idempotent.
  virtual void Stop() = 0;
};

// The log of a shard that has only its own disk. Group commit: while a group
// is being synced the next one gathers, so the cost of a sync is shared by all
// who wait for it.
class LocalWriteLog final : public WriteLog {
 public:
  struct Options {
    int64_t queue_bytes = int64_t{64} << 20;  // that may wait
    int64_t group_bytes = int64_t{8} << 20;   // synced at once, about
  };

  // `sink` must outlive the log.
  LocalWriteLog(Options options, LogSink* sink);
  // Stop().
  ~LocalWriteLog() override;

  void Append(LogEntry entry, CallContext call, Done<WriteReply> done) override;
  void Run(int64_t bytes, CallContext call, Task task) override;
  absl::Status health() const override;
  void Stop() override;

 private:
  // An entry with `done`, or a task.
  struct Pending {
    int64_t bytes = 0;
    CallContext call;
    LogEntry entry;
    Done<WriteReply> done;
    Task task;
  };

  struct Answer {
    Done<WriteReply> done;
    absl::StatusOr<WriteReply> reply;
  };

  // Why `bytes` more cannot be taken; OK if they can.
  absl::Status Refusal(int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes or refuses it.
  void Enqueue(Pending pending);
  static void Refuse(Pending pending, const absl::Status& refusal);
  void CommitLoop();
  void CommitAndAnswer(std::vector<Pending> group);
  void Release(int64_t bytes);
  // The next entries that fit a group, or one task.
  std::vector<Pending> TakeGroup() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Applies the group; what is to be answered, in order. Tasks answer for
  // themselves.
  std::vector<Answer> Commit(std::vector<Pending> group);
  // Ends all writing.
  void Latch(const absl::Status& failure);

  const Options options_;
  LogSink* const sink_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::deque<Pending> pending_ ABSL_GUARDED_BY(mutex_);
  int64_t pending_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // with the open group
  // Moving average of seconds a byte takes to be durable.
  double seconds_per_byte_ ABSL_GUARDED_BY(mutex_) = 1e-8;

  Mutex joining_;
  std::thread committer_ ABSL_GUARDED_BY(joining_);
};

}  // namespace coterie

#endif  // COTERIE_SHARD_WRITE_LOG_H_
