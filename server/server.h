// A running coteried: listens at once, serves when its role allows, drains.
//
// Start, then AwaitServing, AwaitEnd, Shutdown. Thread-safe once started.

#ifndef COTERIE_SERVER_SERVER_H_
#define COTERIE_SERVER_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/options.h"

namespace coterie {

class Server {
 public:
  // Takes the data directory (roles with shards), listens, and begins to load
  // or to reach shards in the background; until that is done health says
  // NOT_SERVING and RPCs fail with UNAVAILABLE saying why. Errors say what to
  // do; nothing is left behind. UNAVAILABLE if an address cannot be bound,
  // ABORTED if another process has the data directory at present.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);

  // Shutdown(); then waits for shards that are still loading.
  ~Server();

  // Returns when the server serves for the first time; the error if it never
  // can; CANCELLED if it is to stop.
  absl::Status AwaitServing();

  // Returns the error that the server cannot go on with, or CANCELLED when it
  // is to stop.
  absl::Status AwaitEnd();
  // Ends those waits with CANCELLED. Stops nothing by itself.
  void RequestStop();

  // The bound port, also when `listen` asked for 0.
  int port() const;
  // host:port to call, or unix:PATH.
  std::string address() const;
  // host:port of HTTP; empty if there is none.
  std::string http_address() const;

  // Health says NOT_SERVING; after options.drain_delay no new calls; calls in
  // progress may end within options.drain and are then cancelled; then shards
  // stop and close. Returns when all of it is done: true; or false at once if
  // shards are still loading, which only the end of the process can stop.
  bool Shutdown();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// "0.1.0"
std::string Version();

}  // namespace coterie

#endif  // COTERIE_SERVER_SERVER_H_
