// Scans longer than what gRPC buffers: back-pressure and cancellation.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/v1/cluster.pb.h"
#include "api/v1/points.pb.h"
#include "coordinator/coordinator.h"
#include "coordinator/fake_cluster.h"
#include "coordinator/test_server.h"

namespace coterie {
namespace {

// A shard whose scan has many large pages, counted as they are asked for.
class LongScanShard final : public FakeShardClient {
 public:
  static constexpr int64_t kPages = 1000;
  LongScanShard() : FakeShardClient(0, 1) {}

  std::unique_ptr<PointStream> Scan(ScanRequest, CallContext) override {
    return std::make_unique<Pages>(this);
  }
  int64_t pulled() const { return pulled_; }
  int64_t open() const { return open_; }

 private:
  class Pages final : public PointStream {
   public:
    explicit Pages(LongScanShard* shard) : shard_(shard) { ++shard_->open_; }
    ~Pages() override { --shard_->open_; }
    void Next(Done<ScanPage> done) override {
      ScanPage page;
      Point& point = page.points.emplace_back();
      point.id = static_cast<PointId>(++next_);
      point.vector.assign(16384, 1.0f);
      page.end = next_ == kPages;
      ++shard_->pulled_;
      done(std::move(page));
    }

   private:
    LongScanShard* const shard_;
    int64_t next_ = 0;
  };
  std::atomic<int64_t> pulled_{0};
  std::atomic<int64_t> open_{0};
};

class LongScanTest : public ::testing::Test {
 protected:
  LongScanTest() : shard_(std::make_shared<LongScanShard>()) {
    coordinator_ = *Coordinator::Create({shard_}, {});
    CollectionSpec spec;
    spec.name = "c";
    spec.dimension = 16384;
    EXPECT_TRUE(Wait<CollectionSpec>([&](Done<CollectionSpec> done) {
                  coordinator_->CreateCollection(spec, {}, std::move(done));
                }).ok());
    server_ = std::make_unique<TestServer>(coordinator_.get(), Limits());
    request_.set_collection("c");
  }

  // Round trips through the same server: time for it to run ahead.
  void OtherCalls(int n) {
    for (int i = 0; i < n; ++i) {
      grpc::ClientContext context;
      v1::DescribeResponse response;
      ASSERT_TRUE(server_->cluster->Describe(&context, {}, &response).ok());
    }
  }

  std::shared_ptr<LongScanShard> shard_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<TestServer> server_;
  v1::ScanRequest request_;
};

TEST_F(LongScanTest, ASlowReaderIsWaitedFor) {
  grpc::ClientContext context;
  auto reader = server_->points->Scan(&context, request_);
  v1::ScanResponse page;
  ASSERT_TRUE(reader->Read(&page));
  OtherCalls(200);
  // What the transport buffers is taken; then nothing until somebody reads.
  EXPECT_LT(shard_->pulled(), LongScanShard::kPages / 2);
  int64_t pages = 1;
  while (reader->Read(&page)) {
    ++pages;
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(pages, LongScanShard::kPages);
  EXPECT_EQ(shard_->pulled(), LongScanShard::kPages);
}

TEST_F(LongScanTest, ACancelledScanEndsAndLetsGoOfTheShard) {
  grpc::ClientContext context;
  auto reader = server_->points->Scan(&context, request_);
  v1::ScanResponse page;
  ASSERT_TRUE(reader->Read(&page));
  EXPECT_EQ(shard_->open(), 1);
  const absl::Time cancelled = absl::Now();
  context.TryCancel();
  WaitUntil([&] {
    return shard_->open() == 0 &&
           server_->records.Count("PointService/Scan",
                                  absl::StatusCode::kCancelled) == 1;
  });
  EXPECT_LT(absl::Now() - cancelled, absl::Seconds(1));
  EXPECT_LT(shard_->pulled(), LongScanShard::kPages);
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

}  // namespace
}  // namespace coterie
