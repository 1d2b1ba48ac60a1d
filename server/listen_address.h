// An address that a server listens on: what --listen and --http take.
//
// Stateless; any thread.

#ifndef COTERIE_SERVER_LISTEN_ADDRESS_H_
#define COTERIE_SERVER_LISTEN_ADDRESS_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace coterie {

struct ListenAddress {
  std::string host;       // without brackets; empty for a socket
  int port = 0;           // 0: a free one
  std::string unix_path;  // not empty: a Unix socket

  bool is_unix() const { return !unix_path.empty(); }
  bool is_ipv6() const { return host.find(':') != std::string::npos; }
  // As a client would write it, with this port.
  std::string ToString(int with_port) const;
};

// "host:port", "[v6]:port" or, for gRPC, "unix:PATH". INVALID_ARGUMENT saying
// what is expected.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text);

// UNAVAILABLE if the address is IPv6 and this machine has none: without this
// check the wildcard would quietly mean IPv4 only.
absl::Status CheckFamily(const ListenAddress& address);

// Holds PATH.lock for a Unix socket: gRPC itself would take over the socket of
// a server that lives. The lock ends with the process, however it ends.
class SocketLock {
 public:
  // FAILED_PRECONDITION if another process holds it. A stale socket does not
  // matter.
  static absl::StatusOr<SocketLock> Take(const std::string& socket_path);

  SocketLock(SocketLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  SocketLock& operator=(SocketLock&&) = delete;
  ~SocketLock();

 private:
  explicit SocketLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace coterie

#endif  // COTERIE_SERVER_LISTEN_ADDRESS_H_
