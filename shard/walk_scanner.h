// Scans of a shard as pieces of work. Private to shard/shard.cc.

#ifndef COTERIE_SHARD_WALK_SCANNER_H_
#define COTERIE_SHARD_WALK_SCANNER_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/shard_messages.h"
#include "shard/shard.h"
#include "shard/stored_points.h"

namespace coterie {

// Pages of a walk, each its own piece of work. The walk is shared with the
// piece that runs, so that the scanner may go before it ends.
template <typename Enqueue>
class WalkScanner final : public Shard::Scanner {
 public:
  WalkScanner(absl::StatusOr<std::unique_ptr<PointWalk>> walk, CallContext call,
              Enqueue enqueue)
      : walk_(std::move(walk)),
        call_(std::move(call)),
        enqueue_(std::move(enqueue)) {}

  void Next(Done<ScanPage> done) override {
    if (!walk_.ok()) return done(walk_.status());
    enqueue_(call_, std::move(done),
             [walk = *walk_, call = call_](absl::Duration) mutable {
               return walk->Next(call);
             });
  }

 private:
  absl::StatusOr<std::shared_ptr<PointWalk>> walk_;
  const CallContext call_;
  Enqueue enqueue_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_WALK_SCANNER_H_
