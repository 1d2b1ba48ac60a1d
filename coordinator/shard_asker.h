// Calls to shards that a job's thread waits for.
//
// Belongs to one thread, which it blocks. Calls end with the job's token.

#ifndef COTERIE_COORDINATOR_SHARD_ASKER_H_
#define COTERIE_COORDINATOR_SHARD_ASKER_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/status_details.h"
#include "coordinator/shard_client.h"
#include "sync/mutex.h"

namespace coterie {

// Whether the same call may be answered a little later.
inline bool WorthAskingAgain(const absl::Status& status) {
  return absl::IsUnavailable(status) || (absl::IsResourceExhausted(status) &&
                                         RetryAfterOf(status).has_value());
}

class ShardAsker {
 public:
  template <typename T>
  using Call = std::function<void(ShardClient&, const CallContext&, Done<T>)>;

  // `beat` is called every `heartbeat` while it waits.
  ShardAsker(ShardSet shards, std::shared_ptr<const CancelToken> cancel,
             absl::Duration heartbeat, std::function<void()> beat)
      : shards_(std::move(shards)),
        cancel_(std::move(cancel)),
        heartbeat_(heartbeat),
        beat_(std::move(beat)) {}

  // One call to each of these shards; their replies in order.
  template <typename T>
  std::vector<absl::StatusOr<T>> Once(const std::vector<int32_t>& shards,
                                      const Call<T>& call,
                                      absl::Time deadline) const {
    struct State {
      Mutex mu;
      CondVar ready;
      size_t missing ABSL_GUARDED_BY(mu) = 0;
      std::vector<absl::StatusOr<T>> replies ABSL_GUARDED_BY(mu);
    };
    auto state = std::make_shared<State>();
    {
      MutexLock lock(&state->mu);
      state->missing = shards.size();
      state->replies.resize(shards.size());
    }
    for (size_t i = 0; i < shards.size(); ++i) {
      call(*(*shards_)[static_cast<size_t>(shards[i])], {deadline, cancel_},
           [state, i](absl::StatusOr<T> reply) {
             MutexLock lock(&state->mu);
             state->replies[i] = std::move(reply);
             if (--state->missing == 0) state->ready.NotifyAll();
           });
    }
    for (;;) {
      {
        MutexLock lock(&state->mu);
        const absl::Time beat = absl::Now() + heartbeat_;
        while (state->missing > 0 && absl::Now() < beat) {
          state->ready.WaitFor(&state->mu,
                               absl::ToChronoNanoseconds(beat - absl::Now()));
        }
        if (state->missing == 0) return std::move(state->replies);
      }
      beat_();
    }
  }

  // Asks each of these shards until it has answered, those that do not answer
  // or are busy again and again until the time is up; replies in order.
  // CANCELLED on request; the first other error, naming its shard.
  template <typename T>
  absl::StatusOr<std::vector<T>> Insist(const std::vector<int32_t>& shards,
                                        absl::Duration timeout,
                                        const Call<T>& call) const {
    const absl::Time deadline = absl::Now() + timeout;
    std::vector<T> all(shards.size());
    std::vector<size_t> waiting(all.size());
    std::iota(waiting.begin(), waiting.end(), size_t{0});
    for (int attempt = 0; !waiting.empty(); ++attempt) {
      if (attempt > 0 && !Pause(attempt)) {
        return absl::CancelledError("the job was cancelled");
      }
      std::vector<int32_t> asked;
      for (const size_t i : waiting) asked.push_back(shards[i]);
      std::vector<absl::StatusOr<T>> replies = Once<T>(asked, call, deadline);
      std::vector<size_t> again;
      for (size_t i = 0; i < replies.size(); ++i) {
        if (replies[i].ok()) {
          all[waiting[i]] = *std::move(replies[i]);
        } else if (WorthAskingAgain(replies[i].status()) &&
                   absl::Now() < deadline) {
          again.push_back(waiting[i]);
        } else {
          return WithShard(replies[i].status(), asked[i]);
        }
      }
      waiting = std::move(again);
    }
    return all;
  }

  // How long to wait after so many attempts: each time twice as long, 40 ms to
  // 1 s.
  static absl::Duration PauseAfter(int attempts) {
    return std::min(absl::Seconds(1),
                    absl::Milliseconds(20) * (1 << std::min(attempts, 10)));
  }

  // Waits for so long; false if the job is cancelled meanwhile.
  bool Pause(int attempt) const {
    struct Sleep {
      Mutex mu;
      CondVar woken;
      bool over ABSL_GUARDED_BY(mu) = false;
    } sleep;
    const absl::Time end = absl::Now() + PauseAfter(attempt);
    const CancelCallback callback(cancel_, [&sleep] {
      MutexLock lock(&sleep.mu);
      sleep.over = true;
      sleep.woken.NotifyAll();
    });
    MutexLock lock(&sleep.mu);
    while (!sleep.over && absl::Now() < end) {
      sleep.woken.WaitFor(&sleep.mu,
                          absl::ToChronoNanoseconds(end - absl::Now()));
    }
    return !sleep.over;
  }

 private:
  const ShardSet shards_;
  const std::shared_ptr<const CancelToken> cancel_;
  const absl::Duration heartbeat_;
  const std::function<void()> beat_;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_SHARD_ASKER_H_
