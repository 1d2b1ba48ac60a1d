// A bound on the bytes of requests being handled at once, over a whole process.
//
// Thread-safe; never blocks: what does not fit is refused at once, so that a
// burst costs its senders a retry and not everyone the process. One request is
// refused only if others are being handled: a budget never starves a message
// that is alone.

#ifndef COTERIE_API_BYTE_BUDGET_H_
#define COTERIE_API_BYTE_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"

namespace coterie {

class ByteBudget {
 public:
  // Gives its bytes back when destroyed. Not thread-safe. Empty by default.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          bytes_(other.bytes_) {}
    Lease& operator=(Lease&& other) noexcept {
      Release();
      budget_ = std::exchange(other.budget_, nullptr);
      bytes_ = other.bytes_;
      return *this;
    }
    ~Lease() { Release(); }

   private:
    friend class ByteBudget;
    void Release();

    ByteBudget* budget_ = nullptr;
    int64_t bytes_ = 0;
  };

  // REQUIRES: limit > 0.
  explicit ByteBudget(int64_t limit) : limit_(limit) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // Takes `bytes` >= 0 into `lease`, which the budget outlives.
  // RESOURCE_EXHAUSTED with a delay to retry after (RetryInfo), naming both
  // sizes and the limit, if other requests hold too much.
  absl::Status Take(int64_t bytes, Lease* lease);

  int64_t limit() const { return limit_; }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  // Requests refused since start.
  int64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> refused_{0};
};

}  // namespace coterie

#endif  // COTERIE_API_BYTE_BUDGET_H_
