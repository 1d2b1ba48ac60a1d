#include "coordinator/coordinator_slot.h"

namespace coterie {

CoordinatorSlot::CoordinatorSlot() {
  pending_.reason = absl::UnavailableError("the server is starting");
}

void CoordinatorSlot::Set(std::shared_ptr<Coordinator> coordinator,
                          std::string cluster_uuid) {
  // The last reference may go here: not under the lock.
  std::shared_ptr<Coordinator> old;
  MutexLock lock(&mu_);
  old = std::exchange(coordinator_, std::move(coordinator));
  pending_ = {};
  pending_.cluster_uuid = std::move(cluster_uuid);
}

void CoordinatorSlot::Clear(Pending pending) {
  std::shared_ptr<Coordinator> old;
  MutexLock lock(&mu_);
  old = std::exchange(coordinator_, nullptr);
  pending_ = std::move(pending);
}

absl::StatusOr<std::shared_ptr<Coordinator>> CoordinatorSlot::Current() const {
  MutexLock lock(&mu_);
  if (coordinator_ == nullptr) {
    return pending_.reason;
  }
  return coordinator_;
}

std::string CoordinatorSlot::cluster_uuid() const {
  MutexLock lock(&mu_);
  return pending_.cluster_uuid;
}

std::vector<ShardDescription> CoordinatorSlot::pending_shards() const {
  MutexLock lock(&mu_);
  return pending_.shards;
}

}  // namespace coterie
