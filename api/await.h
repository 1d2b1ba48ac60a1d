// An asynchronous call, waited for. Only where blocking is fine: never on a
// thread that gRPC or a shard owns.

#ifndef COTERIE_API_AWAIT_H_
#define COTERIE_API_AWAIT_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "api/call.h"
#include "sync/mutex.h"

namespace coterie {

// Starts the call and returns its reply, whenever that comes.
template <typename T>
absl::StatusOr<T> Await(absl::FunctionRef<void(Done<T>)> start) {
  struct State {
    Mutex mu;
    CondVar ready;
    bool done ABSL_GUARDED_BY(mu) = false;
    absl::StatusOr<T> reply ABSL_GUARDED_BY(mu);
  };
  auto state = std::make_shared<State>();
  start([state](absl::StatusOr<T> reply) {
    MutexLock lock(&state->mu);
    state->reply = std::move(reply);
    state->done = true;
    state->ready.NotifyAll();
  });
  MutexLock lock(&state->mu);
  while (!state->done) {
    state->ready.Wait(&state->mu);
  }
  return std::move(state->reply);
}

}  // namespace coterie

#endif  // COTERIE_API_AWAIT_H_
