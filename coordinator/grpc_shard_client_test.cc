// The client of a remote shard against shards that lie, fail or are not there.
// (Real ones: tests/shard_client_conformance_test, tests/shard_wire_test.)

#include "coordinator/grpc_shard_client.h"

#include <gmock/gmock.h>
#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/status_details.h"
#include "api/v1/shard.grpc.pb.h"
#include "coordinator/fake_cluster.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<CountReply> Count(ShardClient& client, CallContext call = {}) {
  return Wait<CountReply>([&](Done<CountReply> done) {
    client.Count({"c", {}}, call, std::move(done));
  });
}

absl::StatusOr<ScanPage> NextOf(PointStream& stream) {
  return Wait<ScanPage>(
      [&](Done<ScanPage> done) { stream.Next(std::move(done)); });
}

// Answers as it is told.
class Liar final : public v1::ShardService::Service {
 public:
  Liar() {
    // Held until the process ends: gRPC's own shutdown, at the end of its last
    // user, now and then waits 10 s for its poller.
    static const bool held = (grpc_init(), true);
    EXPECT_TRUE(held);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    const std::string address = absl::StrCat("127.0.0.1:", port);
    client = MakeGrpcShardClient(2, MakeShardChannel(address, 16 << 20),
                                 address, {});
  }
  ~Liar() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  grpc::Status Count(grpc::ServerContext* context, const v1::ShardCountRequest*,
                     v1::ShardCountResponse* response) override {
    ++calls;
    deadline = absl::FromChrono(context->deadline());
    response->mutable_header()->set_shard_id(shard_id);
    return status;
  }
  grpc::Status Search(grpc::ServerContext*, const v1::ShardSearchRequest*,
                      v1::ShardSearchResponse* response) override {
    response->mutable_header()->set_shard_id(shard_id);
    response->add_hit_counts(1);
    response->add_accounts();
    return status;
  }
  grpc::Status Scan(
      grpc::ServerContext*, const v1::ShardScanRequest*,
      grpc::ServerWriter<v1::ShardScanResponse>* writer) override {
    ++calls;
    for (const bool end : ends) {
      v1::ShardScanResponse page;
      page.mutable_header()->set_shard_id(shard_id);
      page.set_end(end);
      writer->Write(page);
    }
    return status;
  }

  int32_t shard_id = 2;
  std::atomic<int> calls{0};
  absl::Time deadline;  // of the last Count
  grpc::Status status;
  std::vector<bool> ends;
  std::shared_ptr<GrpcShardClient> client;

 private:
  std::unique_ptr<grpc::Server> server_;
};

// The last outcome of a scan that is followed to its end.
absl::StatusOr<ScanPage> LastOf(ShardClient& client) {
  ScanRequest request;
  request.collection = "c";
  const auto stream = client.Scan(request, {});
  for (;;) {
    auto page = NextOf(*stream);
    if (!page.ok() || page->end) return page;
  }
}

TEST(GrpcShardClient, AReplyFromAnotherShardIsRefused) {
  Liar liar;
  ASSERT_TRUE(Count(*liar.client).ok());
  liar.shard_id = 5;
  liar.ends = {true};
  for (const absl::Status& status :
       {Count(*liar.client).status(), LastOf(*liar.client).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("shard 2 was asked"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("shard 5 answered"));
  }
}

TEST(GrpcShardClient, AReplyThatDoesNotFitIsInternal) {
  Liar liar;
  auto request = std::make_shared<SearchRequest>();
  request->collection = "c";
  request->queries.assign(1, std::vector<float>{1, 2});
  request->k = 1;
  const absl::Status status =
      Wait<ShardSearchReply>([&](Done<ShardSearchReply> done) {
        liar.client->Search(request, {}, std::move(done));
      }).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1 hits, 0 ids"));
  EXPECT_EQ(ShardOf(status), 2);
}

TEST(GrpcShardClient, ACallThatTheShardCancelsIsUnavailable) {
  Liar liar;
  liar.status = grpc::Status(grpc::StatusCode::CANCELLED, "");
  const absl::Status status = Count(*liar.client).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ShardOf(status), 2);
}

TEST(GrpcShardClient, AScanEndsWithItsStream) {
  Liar liar;
  liar.ends = {};
  EXPECT_TRUE(LastOf(*liar.client).ok());
  liar.ends = {false, false};
  EXPECT_TRUE(LastOf(*liar.client).ok());
  liar.ends = {false, true};
  EXPECT_TRUE(LastOf(*liar.client).ok());
  liar.ends = {true, false};
  EXPECT_EQ(LastOf(*liar.client).status().code(), absl::StatusCode::kInternal);
  liar.ends = {false, true};
  liar.status = grpc::Status(grpc::StatusCode::DATA_LOSS, "torn");
  EXPECT_EQ(LastOf(*liar.client).status().code(), absl::StatusCode::kDataLoss);
}

TEST(GrpcShardClient, AShardThatCannotBeReachedIsNamedWithItsAddress) {
  const std::string address =
      absl::StrCat("unix-abstract:coterie-nobody-", getpid());
  const auto client =
      MakeGrpcShardClient(3, MakeShardChannel(address, 16 << 20), address, {});
  const absl::Status status = Count(*client).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ShardOf(status), 3);
  EXPECT_THAT(std::string(status.message()), HasSubstr(address));
  ScanRequest scan;
  scan.collection = "c";
  const auto stream = client->Scan(scan, {});
  for (int tries = 0; tries < 2; ++tries) {
    const absl::Status page = NextOf(*stream).status();
    EXPECT_EQ(page.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(ShardOf(page), 3);
  }
}

TEST(GrpcShardClient, DeadlinesTravel) {
  Liar liar;
  const absl::Time now = absl::Now();
  CallContext call;
  call.deadline = now + absl::Hours(2);
  ASSERT_TRUE(Count(*liar.client, call).ok());
  EXPECT_LT(absl::AbsDuration(liar.deadline - call.deadline), absl::Minutes(2));
  // Without one there is the client's.
  ASSERT_TRUE(Count(*liar.client).ok());
  EXPECT_LT(liar.deadline - now, absl::Minutes(3));
}

TEST(GrpcShardClient, ACallThatHasEndedIsNotMade) {
  Liar liar;
  const auto token = std::make_shared<CancelToken>();
  token->Cancel();
  const CallContext cancelled{absl::InfiniteFuture(), token};
  EXPECT_EQ(Count(*liar.client, cancelled).status().code(),
            absl::StatusCode::kCancelled);
  ScanRequest scan;
  scan.collection = "c";
  const auto stream = liar.client->Scan(scan, cancelled);
  EXPECT_EQ(NextOf(*stream).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(liar.calls, 0);
}

}  // namespace
}  // namespace coterie
