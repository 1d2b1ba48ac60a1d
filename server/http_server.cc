#include "server/http_server.h"

#include <CivetServer.h>
#include <prometheus/text_serializer.h>

#include <thread>

#include "absl/strings/str_cat.h"

namespace coterie {
namespace {

void Reply(mg_connection* connection, absl::string_view status,
           absl::string_view type, const std::string& body) {
  const std::string head = absl::StrCat(
      "HTTP/1.1 ", status, "\r\nContent-Type: ", type,
      "\r\nContent-Length: ", body.size(), "\r\nConnection: close\r\n\r\n");
  mg_write(connection, head.data(), head.size());
  mg_write(connection, body.data(), body.size());
}

class MetricsHandler final : public CivetHandler {
 public:
  explicit MetricsHandler(HttpServer::Collector collector)
      : collector_(std::move(collector)) {}

  bool handleGet(CivetServer* /*server*/, mg_connection* connection) override {
    // On a thread of its own: CivetWeb's have 100 KiB of stack, and what is
    // collected asks shards over gRPC.
    std::string body;
    std::thread([this, &body] {
      body = prometheus::TextSerializer().Serialize(collector_());
    }).join();
    Reply(connection, "200 OK", "text/plain; version=0.0.4; charset=utf-8",
          body);
    return true;
  }

 private:
  const HttpServer::Collector collector_;
};

class HealthHandler final : public CivetHandler {
 public:
  explicit HealthHandler(const Health* health) : health_(health) {}

  bool handleGet(CivetServer* /*server*/, mg_connection* connection) override {
    const bool serving = health_->serving();
    Reply(connection, serving ? "200 OK" : "503 Service Unavailable",
          "text/plain; charset=utf-8",
          serving ? "serving\n" : absl::StrCat(health_->reason(), "\n"));
    return true;
  }

 private:
  const Health* const health_;
};

class CivetHttpServer final : public HttpServer {
 public:
  CivetHttpServer(const ListenAddress& address, const Health* health,
                  Collector collector)
      : address_(address),
        metrics_(std::move(collector)),
        health_(health),
        server_({"listening_ports", address.ToString(address.port),
                 "num_threads", "2", "request_timeout_ms", "10000",
                 "enable_directory_listing", "no"}) {
    server_.addHandler("/metrics", metrics_);
    server_.addHandler("/healthz", health_);
  }

  std::string address() const override {
    return address_.ToString(server_.getListeningPorts().front());
  }

 private:
  const ListenAddress address_;
  MetricsHandler metrics_;
  HealthHandler health_;
  // Last, so that its threads end before what they use.
  mutable CivetServer server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const ListenAddress& address, const Health* health, Collector collector) {
  // CivetWeb says what is wrong by throwing, and no more than that.
  try {
    return std::unique_ptr<HttpServer>(std::make_unique<CivetHttpServer>(
        address, health, std::move(collector)));
  } catch (const CivetException&) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen for HTTP on ", address.ToString(address.port),
        ": is the port taken, and the host an address of this machine? Choose "
        "another with --http=host:port, or none with --http="));
  }
}

}  // namespace coterie
