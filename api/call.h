// What a call carries besides its request: until when it matters, and whether
// its caller is still there. Passed from the edge to the inner loops.

#ifndef COTERIE_API_CALL_H_
#define COTERIE_API_CALL_H_

#include <atomic>
#include <list>
#include <memory>
#include <stop_token>
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

  // Runs what waits for it (CancelCallback) before it returns: not to be called
  // with a lock held that one of those takes.
  void Cancel() { source_.request_stop(); }
  bool cancelled() const {
    return source_.stop_requested() ||
           (parent_ != nullptr && parent_->cancelled());
  }

 private:
  friend class CancelCallback;

  std::stop_source source_;
  const std::shared_ptr<const CancelToken> parent_;
};

// Runs `callback` once, when a token or one of its parents is cancelled: on the
// cancelling thread, or at once, in the constructor, if that has happened. The
// object belongs to one thread at a time.
class CancelCallback {
 public:
  // A null token is never cancelled.
  CancelCallback(std::shared_ptr<const CancelToken> token,
                 absl::AnyInvocable<void()> callback)
      : token_(std::move(token)) {
    auto once = std::make_shared<Once>(std::move(callback));
    for (const CancelToken* t = token_.get(); t != nullptr;
         t = t->parent_.get()) {
      waiting_.emplace_back(t->source_.get_token(), Caller{once});
    }
  }
  CancelCallback(const CancelCallback&) = delete;
  CancelCallback& operator=(const CancelCallback&) = delete;
  // Afterwards the callback does not run: waits for it if it does, unless it
  // runs on this very thread.
  ~CancelCallback() = default;

 private:
  struct Once {
    explicit Once(absl::AnyInvocable<void()> c) : callback(std::move(c)) {}
    std::atomic<bool> called{false};
    absl::AnyInvocable<void()> callback;
  };
  struct Caller {
    std::shared_ptr<Once> once;
    void operator()() const {
      // The callback may destroy its CancelCallback, and this with it.
      const std::shared_ptr<Once> kept = once;
      if (!kept->called.exchange(true)) kept->callback();
    }
  };

  const std::shared_ptr<const CancelToken> token_;
  // One for each token of the chain.
  std::list<std::stop_callback<Caller>> waiting_;
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
