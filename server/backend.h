// What a role does behind the services: load shards, or reach them.

#ifndef COTERIE_SERVER_BACKEND_H_
#define COTERIE_SERVER_BACKEND_H_

#include <grpcpp/impl/service_type.h>

#include <vector>

#include "absl/status/status.h"

namespace coterie {

class Backend {
 public:
  virtual ~Backend() = default;

  // Services of its own, to be registered; owned here. They outlive the server.
  virtual std::vector<grpc::Service*> services() { return {}; }

  // Called once, on a thread of its own. Fills slot and health and keeps them
  // true until Stop. An error is one that the process cannot go on with.
  virtual absl::Status Run() = 0;

  // Makes Run return, soon unless shards are loading. Any thread, also before
  // Run.
  virtual void Stop() = 0;

  // After Run has returned and no RPC is left: ends what was begun.
  virtual void Close() = 0;
};

}  // namespace coterie

#endif  // COTERIE_SERVER_BACKEND_H_
