// A threshold that scans of one query lower together: the other threads and
// segments then prune by what one has found.
//
// Thread-safe and lock-free. A value is valid for everybody if the k nearest of
// all rows that the query is answered from are no farther: k distinct live rows
// at most as far, wherever they are (each scan's own k-th distance or bound is
// such a value), or a radius beyond which nothing is wanted. Since rows are
// ruled out only strictly above it, when it arrives changes counts, never
// answers.

#ifndef COTERIE_INDEX_SHARED_THRESHOLD_H_
#define COTERIE_INDEX_SHARED_THRESHOLD_H_

#include <atomic>
#include <limits>

namespace coterie {

class SharedThreshold {
 public:
  double value() const { return value_.load(std::memory_order_relaxed); }

  // The lesser of both from now on. NaN is ignored. No order is needed: a
  // stale value is valid, too.
  void Lower(double value) {
    double now = value_.load(std::memory_order_relaxed);
    while (value < now && !value_.compare_exchange_weak(
                              now, value, std::memory_order_relaxed)) {
    }
  }

 private:
  std::atomic<double> value_{std::numeric_limits<double>::infinity()};
};

}  // namespace coterie

#endif  // COTERIE_INDEX_SHARED_THRESHOLD_H_
