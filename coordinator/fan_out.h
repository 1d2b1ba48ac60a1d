// One call to each of n shards, and all replies in order.
//
// Any thread. Nothing blocks: the thread of the last reply goes on with them.

#ifndef COTERIE_COORDINATOR_FAN_OUT_H_
#define COTERIE_COORDINATOR_FAN_OUT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "api/call.h"

namespace coterie {

// Calls start(i, done) for i = 0..n-1, then, when each `done` has run, calls
// `finish` with the replies in order of i. With n = 0 at once.
template <typename T>
void FanOut(int64_t n, absl::FunctionRef<void(int64_t, Done<T>)> start,
            absl::AnyInvocable<void(std::vector<absl::StatusOr<T>>)> finish) {
  struct State {
    std::vector<absl::StatusOr<T>> replies;
    std::atomic<int64_t> pending;
    absl::AnyInvocable<void(std::vector<absl::StatusOr<T>>)> finish;
  };
  if (n == 0) {
    finish({});
    return;
  }
  auto state = std::make_shared<State>();
  state->replies.resize(static_cast<size_t>(n));
  state->pending = n;
  state->finish = std::move(finish);
  for (int64_t i = 0; i < n; ++i) {
    start(i, [state, i](absl::StatusOr<T> reply) {
      state->replies[static_cast<size_t>(i)] = std::move(reply);
      if (state->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        state->finish(std::move(state->replies));
      }
    });
  }
}

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_FAN_OUT_H_
