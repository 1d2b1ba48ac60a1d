// What a call carries besides its request: until when it matters, and whether
// its caller is still there. Passed from the edge to the inner loops.

#ifndef COTERIE_API_CALL_H_
#define COTERIE_API_CALL_H_

#include <atomic>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace coterie {

// Set once, by the edge, when the caller goes away. Any thread.
class CancelToken {
 public:
  CancelToken() = default;
  // Also cancelled when `parent` is; null: alone.
  explicit CancelToken(std::shared_ptr<const CancelToken> parent)
      : parent_(std::move(parent)) {}

  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const {
    return cancelled_.load(std::memory_order_relaxed) ||
           (parent_ != nullptr && parent_->cancelled());
  }

 private:
  std::atomic<bool> cancelled_{false};
  const std::shared_ptr<const CancelToken> parent_;
};

// Copied freely; copies share the token. Any thread.
struct CallContext {
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<const CancelToken> cancel;  // null: cannot be cancelled

  // Whether further work on this call is wasted.
  bool ShouldStop() const {
    return (cancel != nullptr && cancel->cancelled()) ||
           (deadline != absl::InfiniteFuture() && absl::Now() >= deadline);
  }

  // CANCELLED or DEADLINE_EXCEEDED; OK while the call is live.
  absl::Status status() const {
    if (cancel != nullptr && cancel->cancelled()) {
      return absl::CancelledError("the caller went away");
    }
    if (deadline != absl::InfiniteFuture() && absl::Now() >= deadline) {
      return absl::DeadlineExceededError("the deadline passed");
    }
    return absl::OkStatus();
  }
};

// Called exactly once, on any thread, possibly before the call that was given
// it returns. Must not block.
template <typename T>
using Done = absl::AnyInvocable<void(absl::StatusOr<T>)>;

}  // namespace coterie

#endif  // COTERIE_API_CALL_H_
