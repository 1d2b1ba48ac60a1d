// Searches of one collection and one filter that wait together are answered
// together, by one pass over the rows.
//
// Thread-safe. A search that finds a free thread starts at once, alone. Those
// that come while all threads are busy wait, in the order in which they came,
// and the next free thread takes the first and all that ask the same filter:
// reading the rows once for many queries costs little more than for one. Those
// of other filters follow; what they read is for the most part not the same
// (adr/0021). Collections take turns: each has one place in the work queue
// however many of its searches wait.

#ifndef COTERIE_SHARD_SEARCH_BATCHER_H_
#define COTERIE_SHARD_SEARCH_BATCHER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/search.h"
#include "api/shard_messages.h"
#include "shard/work_queue.h"
#include "sync/mutex.h"

namespace coterie {

class SearchBatcher {
 public:
  struct Search {
    std::shared_ptr<const SearchRequest> request;
    CallContext call;
    Done<ShardSearchReply> done;
    absl::Time arrived;
    absl::Duration waited;
  };
  // Answers searches of one collection and filter, at least one, on a thread of
  // the queue; several passes may run at a time. Must call each `done` once.
  using Pass = std::function<void(const std::string& collection,
                                  std::vector<Search> searches)>;

  // Queries of a pass: from about here on more company makes no query cheaper.
  // A search with more has a pass of its own.
  static constexpr int64_t kMostQueries = 64;

  // At most `capacity` searches wait, >= 1. The queue must be stopped before
  // this object goes.
  SearchBatcher(int32_t capacity, WorkQueue* queue, Pass pass);
  SearchBatcher(const SearchBatcher&) = delete;
  SearchBatcher& operator=(const SearchBatcher&) = delete;

  // Does not block. `done` gets RESOURCE_EXHAUSTED with a delay at once if
  // `capacity` wait; CANCELLED or DEADLINE_EXCEEDED if the call ended while it
  // waited; UNAVAILABLE if the queue is stopped.
  void Submit(std::shared_ptr<const SearchRequest> request, CallContext call,
              Done<ShardSearchReply> done);

  QueueState state() const;

  // On behalf of all: of one search its call, of several one that lasts until
  // their last deadline. REQUIRES: there is one.
  static CallContext CallOf(const std::vector<Search>& searches);

 private:
  // Searches of one collection that wait.
  struct Group {
    std::deque<Search> waiting;
    bool queued = false;  // a place in the work queue is taken for them
  };

  void TakePlace(const std::string& collection);
  void Start(const std::string& collection, const absl::Status& status);
  // The next pass of the group: its first search, and those that go with it.
  std::vector<Search> TakeBatch(Group* group)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration RetryDelay() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  WorkQueue* const queue_;
  const Pass pass_;

  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, Group> groups_ ABSL_GUARDED_BY(mutex_);
  QueueState state_ ABSL_GUARDED_BY(mutex_);
  // Moving average of what a pass takes for each of its searches.
  absl::Duration share_ ABSL_GUARDED_BY(mutex_) = absl::Milliseconds(1);
};

}  // namespace coterie

#endif  // COTERIE_SHARD_SEARCH_BATCHER_H_
