#include "server/http_server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/metrics.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The whole answer to GET `path` on a loopback port.
std::string Get(const std::string& address, const std::string& path) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
  EXPECT_EQ(write(fd, request.data(), request.size()),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t n = read(fd, buffer, sizeof(buffer)); n > 0;
       n = read(fd, buffer, sizeof(buffer))) {
    answer.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return answer;
}

// As asking shards over gRPC may: more than CivetWeb's own threads have.
void UseStack() {
  volatile char frame[512 << 10];
  for (size_t i = 0; i < sizeof(frame); i += 4096) frame[i] = 1;
}

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() : metrics_(Sources()) {
    auto started =
        HttpServer::Start(*ParseListenAddress("127.0.0.1:0"), &health_,
                          [this] { return metrics_.Collect(); });
    EXPECT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
  }

  Metrics::Sources Sources() {
    Metrics::Sources sources;
    sources.version = "1.2.3";
    sources.role = "all";
    sources.health = &health_;
    sources.budget = &budget_;
    sources.shards = [] {
      UseStack();
      ShardDescription up;
      up.shard_id = 0;
      up.points = 42;
      up.memory_bytes = 4096;
      up.sequence = 17;
      up.queues = {{WorkClass::kSearch, 3, 256, 2, 40, 1.5},
                   {WorkClass::kRead, 0, 256, 0, 7, 0}};
      up.segment_files = {12, 1, 2};
      ShardDescription down;
      down.shard_id = 1;
      down.state = ShardDescription::State::kUnreachable;
      return std::vector<ShardDescription>{up, down};
    };
    sources.duplicate_ids = [] { return int64_t{5}; };
    sources.recalls = [] {
      return std::map<std::string, double>{{"words", 0.875}};
    };
    return sources;
  }

  Health health_;
  ByteBudget budget_{1000};
  Metrics metrics_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, HealthzFollowsHealthAndSaysWhyNot) {
  health_.SetProcess(false, "shard 1 does not answer");
  const std::string down = Get(server_->address(), "/healthz");
  EXPECT_THAT(down, HasSubstr(" 503 "));
  EXPECT_THAT(down, HasSubstr("shard 1 does not answer"));
  health_.SetProcess(true, "");
  EXPECT_THAT(Get(server_->address(), "/healthz"), HasSubstr(" 200 "));
}

TEST_F(HttpServerTest, MetricsHaveRpcsShardsAndTheProcess) {
  const RpcObserver observer = metrics_.Observer();
  observer("SearchService/Search", absl::StatusCode::kOk, 0.003);
  observer("SearchService/Search", absl::StatusCode::kOk, 0.003);
  observer("SearchService/Search", absl::StatusCode::kNotFound, 0.2);
  ByteBudget::Lease lease;
  ASSERT_TRUE(budget_.Take(600, &lease).ok());
  ByteBudget::Lease refused;
  ASSERT_FALSE(budget_.Take(600, &refused).ok());

  const std::string text = Get(server_->address(), "/metrics");
  EXPECT_THAT(text, HasSubstr(" 200 "));
  for (const char* line :
       {"coterie_shard_up{shard=\"0\"} 1",
        "coterie_recall_at_k{collection=\"words\"} 0.875",
        "coterie_shard_up{shard=\"1\"} 0",
        "coterie_shard_points{shard=\"0\"} 42",
        "coterie_shard_memory_bytes{shard=\"0\"} 4096",
        "coterie_shard_sequence{shard=\"0\"} 17",
        "coterie_shard_segment_files{shard=\"0\"} 12",
        "coterie_shard_segment_files_refused{shard=\"0\"} 1",
        "coterie_shard_segment_file_failures_total{shard=\"0\"} 2",
        "coterie_shard_queue_length{shard=\"0\",class=\"search\"} 3",
        "coterie_shard_queue_capacity{shard=\"0\",class=\"read\"} 256",
        "coterie_shard_queue_refused_total{shard=\"0\",class=\"search\"} 2",
        "coterie_shard_queue_taken_total{shard=\"0\",class=\"read\"} 7",
        "coterie_shard_queue_wait_seconds_total{shard=\"0\",class=\"search\"} "
        "1.5",
        "coterie_inflight_request_bytes 600",
        "coterie_inflight_request_limit_bytes 1000",
        "coterie_inflight_refused_total 1",
        "coterie_duplicate_ids_total 5",
        "coterie_serving 0",
        "version=\"1.2.3\"",
        "# TYPE coterie_rpc_handling_seconds histogram"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  // What an unreachable shard holds is not known, so not said.
  EXPECT_THAT(text, Not(HasSubstr("coterie_shard_points{shard=\"1\"}")));
  EXPECT_THAT(text, ::testing::ContainsRegex(
                        "coterie_rpc_handling_seconds_count\\{[^}]*code="
                        "\"OK\"[^}]*\\} 2"));
  EXPECT_THAT(text, ::testing::ContainsRegex(
                        "coterie_rpc_handling_seconds_count\\{[^}]*code="
                        "\"NOT_FOUND\"[^}]*\\} 1"));
}

TEST_F(HttpServerTest, OtherPathsAreNotServed) {
  for (const char* path : {"/", "/../../etc/passwd", "/etc/passwd"}) {
    EXPECT_THAT(Get(server_->address(), path), HasSubstr(" 404 ")) << path;
  }
}

TEST_F(HttpServerTest, ATakenPortIsAnErrorThatNamesIt) {
  const auto second =
      HttpServer::Start(*ParseListenAddress(server_->address()), &health_,
                        [] { return std::vector<prometheus::MetricFamily>(); });
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(server_->address()));
}

}  // namespace
}  // namespace coterie
