#include "coordinator/scatter_gather.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "api/status_details.h"
#include "api/stopwatch.h"
#include "coordinator/shard_deadline.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

// Lives until the last shard has answered, which may be after the outcome.
class Gatherer : public std::enable_shared_from_this<Gatherer> {
 public:
  Gatherer(size_t shards, size_t asked, bool fail_fast, CallContext call,
           Done<ShardReplies> done)
      : fail_fast_(fail_fast),
        call_(std::move(call)),
        stop_(std::make_shared<CancelToken>(call_.cancel)),
        pending_(asked),
        replies_(shards),
        done_(std::move(done)) {}

  void Start(const ShardSet& shards,
             const std::vector<std::shared_ptr<const SearchRequest>>& requests,
             absl::Duration reserve) {
    CallContext shard_call = ShardCall(call_, reserve);
    shard_call.cancel = stop_;
    for (size_t i = 0; i < shards->size(); ++i) {
      if (requests[i] == nullptr) {
        continue;
      }
      if (decided()) {
        return;  // a shard failed at once: spare the rest
      }
      (*shards)[i]->Search(
          requests[i], shard_call,
          [self = shared_from_this(), i, asked = requests[i]->k,
           watch = Stopwatch()](absl::StatusOr<ShardSearchReply> reply) {
            if (reply.ok()) {
              reply->times.round_trip_seconds = watch.Seconds();
              reply->asked = asked;
            }
            self->Accept(i, std::move(reply));
          });
    }
  }

 private:
  bool decided() {
    MutexLock lock(&mu_);
    return decided_;
  }

  void Accept(size_t i, absl::StatusOr<ShardSearchReply> reply) {
    std::optional<absl::StatusOr<ShardReplies>> outcome;
    {
      MutexLock lock(&mu_);
      if (decided_) {
        return;
      }
      --pending_;
      if (fail_fast_ && !reply.ok()) {
        outcome = WithShard(reply.status(), static_cast<int32_t>(i));
      } else {
        replies_[i] = std::move(reply);
        if (pending_ == 0) {
          outcome = std::move(replies_);
        }
      }
      if (!outcome.has_value()) {
        return;
      }
      decided_ = true;
    }
    if (call_.cancel != nullptr && call_.cancel->cancelled()) {
      outcome = call_.status();
    }
    stop_->Cancel();
    // Shards that still owe an answer keep nothing alive but this.
    Done<ShardReplies> done = std::move(done_);
    done(*std::move(outcome));
  }

  const bool fail_fast_;
  const CallContext call_;
  const std::shared_ptr<CancelToken> stop_;
  Mutex mu_;
  bool decided_ ABSL_GUARDED_BY(mu_) = false;
  size_t pending_ ABSL_GUARDED_BY(mu_);
  ShardReplies replies_ ABSL_GUARDED_BY(mu_);
  // Called by whoever set decided_.
  Done<ShardReplies> done_;
};

}  // namespace

void ScatterSearch(const ShardSet& shards,
                   std::vector<std::shared_ptr<const SearchRequest>> requests,
                   CallContext call, absl::Duration reserve,
                   Done<ShardReplies> done) {
  size_t asked = 0;
  bool fail_fast = false;
  for (const std::shared_ptr<const SearchRequest>& request : requests) {
    if (request != nullptr) {
      ++asked;
      fail_fast = request->partial_policy.kind == PartialPolicy::Kind::kFail;
    }
  }
  std::make_shared<Gatherer>(shards->size(), asked, fail_fast, std::move(call),
                             std::move(done))
      ->Start(shards, requests, reserve);
}

}  // namespace coterie
