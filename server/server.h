// A running coteried: data directory, shards, coordinator and gRPC server.
//
// Start, then Wait or Shutdown; Shutdown may be called from any thread, once
// or often. Nothing else is thread-safe.

#ifndef COTERIE_SERVER_SERVER_H_
#define COTERIE_SERVER_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/options.h"

namespace coterie {

class Server {
 public:
  // Takes the data directory, loads every shard (in parallel), then listens
  // and reports SERVING. Errors say what to do; nothing is left behind.
  // UNAVAILABLE if the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);

  // Shutdown(), if it was not called.
  ~Server();

  // The bound port, also when `listen` asked for 0.
  int port() const;
  // host:port to call.
  std::string address() const;

  // Drains: health NOT_SERVING, no new calls; calls in progress may end within
  // options.drain and are then cancelled; then shards stop and close. Returns
  // when all of it is done.
  void Shutdown();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// "0.1.0"
std::string Version();

}  // namespace coterie

#endif  // COTERIE_SERVER_SERVER_H_
