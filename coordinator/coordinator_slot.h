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
#include "api/limits.h"
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

// What every handler does of an RPC of its own that it returns: the request is
// charged to the budget and decoded, and `ask(coordinator, decoded)` answers;
// or the RPC is refused. `decode(request, limits)` gives a StatusOr.
template <typename Rpc, typename Request, typename Decode, typename Ask>
Rpc* Handle(Rpc* rpc, const Request& request, const CoordinatorSlot& slot,
            const Limits& limits, Decode decode, Ask ask) {
  const absl::Status charged = rpc->Charge(request);
  if (!charged.ok()) {
    rpc->Refuse(charged);
    return rpc;
  }
  const absl::StatusOr<std::shared_ptr<Coordinator>> current = slot.Current();
  if (!current.ok()) {
    rpc->Refuse(current.status());
    return rpc;
  }
  auto decoded = decode(request, limits);
  if (!decoded.ok()) {
    rpc->Refuse(decoded.status());
    return rpc;
  }
  ask(**current, *std::move(decoded));
  return rpc;
}

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_COORDINATOR_SLOT_H_
