// What grpc.health.v1 and /healthz say of this process: whether it serves, and
// if not, why.
//
// Thread-safe. Names: "" and each public service follow the process;
// "shard/<id>" follows that shard. They start NOT_SERVING. "alive" is always
// SERVING, while loading and draining too: it says that the process answers at
// all, to those who would restart it if not.

#ifndef COTERIE_SERVER_HEALTH_H_
#define COTERIE_SERVER_HEALTH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "sync/mutex.h"

namespace coterie {

class Health {
 public:
  // Told of each change of a name it watches; the name may be unknown yet.
  // Called with a lock held: must return at once and not call back.
  using Watcher = std::function<void(std::optional<bool> serving)>;

  Health();

  // `reason` says why not; ignored if serving.
  void SetProcess(bool serving, std::string reason);
  void SetShard(int32_t shard_id, bool serving);
  // Everything but "alive" NOT_SERVING, for good.
  void Drain();

  bool serving() const;
  // Empty while serving.
  std::string reason() const;
  // Nothing for a name that does not exist.
  std::optional<bool> Check(const std::string& name) const;

  // Tells the watcher the present state, then every change until Unwatch.
  int64_t Watch(const std::string& name, Watcher watcher);
  void Unwatch(int64_t watch);

 private:
  void Set(const std::string& name, bool serving)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  std::string reason_ ABSL_GUARDED_BY(mu_) = "starting";
  std::map<std::string, bool> serving_ ABSL_GUARDED_BY(mu_);
  struct Entry {
    std::string name;
    Watcher watcher;
  };
  int64_t next_watch_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<int64_t, Entry> watches_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coterie

#endif  // COTERIE_SERVER_HEALTH_H_
