// /metrics and /healthz over HTTP (CivetWeb).
//
// Thread-safe. Two threads answer; a slow peer is dropped after 10 s.

#ifndef COTERIE_SERVER_HTTP_SERVER_H_
#define COTERIE_SERVER_HTTP_SERVER_H_

#include <prometheus/registry.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/health.h"
#include "server/listen_address.h"

namespace coterie {

class HttpServer {
 public:
  // What /metrics prints; asked at each request, on a thread made for it.
  using Collector = std::function<std::vector<prometheus::MetricFamily>()>;

  // Serves until destroyed. UNAVAILABLE if it cannot listen; the host is an
  // address, not a name. `health` outlives it.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const ListenAddress& address, const Health* health, Collector collector);

  virtual ~HttpServer() = default;
  // host:port to call.
  virtual std::string address() const = 0;
};

}  // namespace coterie

#endif  // COTERIE_SERVER_HTTP_SERVER_H_
