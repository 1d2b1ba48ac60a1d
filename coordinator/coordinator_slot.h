// Where the services find their coordinator: there may be none yet (shards are
// loading or not reached), and another may take its place (shards moved).
//
// Thread-safe. A call keeps the coordinator it began with.

#ifndef COTERIE_COORDINATOR_COORDINATOR_SLOT_H_
#define COTERIE_COORDINATOR_COORDINATOR_SLOT_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/shard_messages.h"
#include "coordinator/coordinator.h"
#include "sync/mutex.h"

namespace coterie {

class CoordinatorSlot {
 public:
  // What is known while nothing serves.
  struct Pending {
    absl::Status reason;  // not OK: what callers are told
    std::string cluster_uuid;
    std::vector<ShardDescription> shards;
  };

  // Empty: UNAVAILABLE "starting".
  CoordinatorSlot();

  void Set(std::shared_ptr<Coordinator> coordinator, std::string cluster_uuid);
  void Clear(Pending pending);

  // Or why there is none.
  absl::StatusOr<std::shared_ptr<Coordinator>> Current() const;
  // As last given, by Set or Clear.
  std::string cluster_uuid() const;
  // Shards as Clear had them; empty while a coordinator serves.
  std::vector<ShardDescription> pending_shards() const;

 private:
  mutable Mutex mu_;
  std::shared_ptr<Coordinator> coordinator_ ABSL_GUARDED_BY(mu_);
  Pending pending_ ABSL_GUARDED_BY(mu_);
};

// The coordinator for an RPC whose request has been charged to the budget; null
// after refusing the RPC, which its handler then returns as it is.
template <typename Rpc, typename Request>
std::shared_ptr<Coordinator> Admit(Rpc* rpc, const Request& request,
                                   const CoordinatorSlot& slot) {
  absl::Status charged = rpc->Charge(request);
  if (!charged.ok()) {
    rpc->Refuse(charged);
    return nullptr;
  }
  absl::StatusOr<std::shared_ptr<Coordinator>> current = slot.Current();
  if (!current.ok()) {
    rpc->Refuse(current.status());
    return nullptr;
  }
  return *std::move(current);
}

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_COORDINATOR_SLOT_H_
