// A lock that nobody can keep from others by taking it again and again.
//
// Thread-safe. With sync/mutex.h a thread that works in a loop may lock again
// before one that waits has woken up; here who waits first is next.

#ifndef COTERIE_SHARD_TURN_MUTEX_H_
#define COTERIE_SHARD_TURN_MUTEX_H_

#include "absl/base/thread_annotations.h"
#include "sync/mutex.h"

namespace coterie {

class ABSL_LOCKABLE TurnMutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    // One waiter at a time; the holder, coming back, waits behind it.
    MutexLock next(&next_);
    held_.Lock();
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    held_.Unlock();
  }

 private:
  Mutex next_;
  Mutex held_;
};

class ABSL_SCOPED_LOCKABLE TurnLock {
 public:
  explicit TurnLock(TurnMutex* mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) {
    mu_->Lock();
  }
  ~TurnLock() ABSL_UNLOCK_FUNCTION() { mu_->Unlock(); }
  TurnLock(const TurnLock&) = delete;
  TurnLock& operator=(const TurnLock&) = delete;

 private:
  TurnMutex* const mu_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_TURN_MUTEX_H_
