// How a model of a shard answers a call. For the fake shard's sources only.

#ifndef COTERIE_COORDINATOR_FAKE_SHARD_ANSWER_H_
#define COTERIE_COORDINATOR_FAKE_SHARD_ANSWER_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "coordinator/fake_shard_client.h"

namespace coterie {

template <typename T>
void FakeShardClient::Answer(const std::string& method, const CallContext& call,
                             absl::AnyInvocable<absl::StatusOr<T>()> answer,
                             Done<T> done) {
  absl::AnyInvocable<void()> reply;
  {
    MutexLock lock(&mu_);
    ++calls_[method];
    last_calls_[method] = call;
    absl::Status failure = failures_[method];
    if (auto once = failures_once_.find(method); once != failures_once_.end()) {
      failure = once->second;
      failures_once_.erase(once);
    }
    absl::Status lost;
    if (auto lose = lost_replies_.find(method); lose != lost_replies_.end()) {
      lost = lose->second;
      lost_replies_.erase(lose);
    }
    reply = [failure, lost, answer = std::move(answer),
             done = std::move(done)]() mutable {
      if (failure.ok() && !lost.ok()) {
        answer().status().IgnoreError();
        done(lost);
      } else if (failure.ok()) {
        done(answer());
      } else {
        done(failure);
      }
    };
    if (holding_[method]) {
      held_.push_back(std::move(reply));
      return;
    }
    if (options_.own_thread) {
      work_.push_back(std::move(reply));
      work_ready_.NotifyAll();
      return;
    }
  }
  reply();
}

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_FAKE_SHARD_ANSWER_H_
