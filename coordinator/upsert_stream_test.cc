// UpsertStream through a real gRPC server, over one fake shard.

#include "coordinator/upsert_stream.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/grpc_status.h"
#include "api/status_details.h"
#include "api/v1/points.pb.h"
#include "coordinator/fake_cluster.h"
#include "coordinator/test_server.h"

namespace coterie {
namespace {

constexpr char kMethod[] = "PointService/UpsertStream";

v1::UpsertStreamRequest Item(int64_t item, float x = 1) {
  v1::UpsertStreamRequest request;
  request.set_item(item);
  *request.mutable_request() = UpsertOf("c", {{x, 0}});
  request.mutable_request()->mutable_points(0)->set_id(
      static_cast<uint64_t>(item));
  return request;
}

class UpsertStreamTest : public ::testing::Test {
 protected:
  UpsertStreamTest() : cluster_(1), server_(cluster_.coordinator.get(), {}) {
    EXPECT_TRUE(cluster_.Create("c", 2).ok());
    stream_ = server_.points->UpsertStream(&context_);
  }
  ~UpsertStreamTest() override { cluster_.shard(0).Release(); }

  FakeShardClient& shard() { return cluster_.shard(0); }

  // The answers that are left, by item.
  std::map<int64_t, v1::UpsertStreamResponse> ReadAll() {
    std::map<int64_t, v1::UpsertStreamResponse> answers;
    v1::UpsertStreamResponse answer;
    while (stream_->Read(&answer)) {
      EXPECT_TRUE(answers.emplace(answer.item(), answer).second)
          << "answered twice: " << answer.item();
    }
    return answers;
  }

  // Time in which a server that would go on does so.
  void AskOtherThings() {
    for (int i = 0; i < 100; ++i) {
      EXPECT_TRUE(cluster_.Count("c").ok());
      grpc::ClientContext context;
      v1::CountRequest count;
      count.set_collection("c");
      v1::CountResponse counted;
      EXPECT_TRUE(server_.points->Count(&context, count, &counted).ok());
    }
  }

  FakeCluster cluster_;
  TestServer server_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::UpsertStreamRequest,
                                           v1::UpsertStreamResponse>>
      stream_;
};

TEST_F(UpsertStreamTest, AnswersEveryItemAndABadOneFailsAlone) {
  v1::UpsertStreamRequest bad =
      Item(2, std::numeric_limits<float>::quiet_NaN());
  v1::UpsertStreamRequest elsewhere = Item(3);
  elsewhere.mutable_request()->set_collection("none");
  v1::UpsertStreamRequest empty;
  empty.set_item(4);
  v1::UpsertStreamRequest twice = Item(6);
  *twice.mutable_request()->add_points() = twice.request().points(0);
  for (const auto& item : {Item(1), bad, elsewhere, empty, Item(5), twice}) {
    ASSERT_TRUE(stream_->Write(item));
  }
  ASSERT_TRUE(stream_->WritesDone());
  const auto answers = ReadAll();
  const absl::Status ended = FromGrpcStatus(stream_->Finish());
  ASSERT_TRUE(ended.ok()) << ended;
  ASSERT_EQ(answers.size(), 6u);
  EXPECT_EQ(answers.at(1).ack().upserted(), 1);
  EXPECT_EQ(FromRpcStatus(answers.at(6).error()).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(answers.at(5).ack().upserted(), 1);
  const absl::Status nan = FromRpcStatus(answers.at(2).error());
  EXPECT_EQ(nan.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(FieldOf(nan).value_or(""),
              testing::StartsWith("points[0].vector"));
  EXPECT_EQ(FromRpcStatus(answers.at(3).error()).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(FieldOf(FromRpcStatus(answers.at(4).error())), "collection");
  EXPECT_EQ(shard().points("c"), 2);
  WaitUntil([&] {
    return server_.records.Count(kMethod, absl::StatusCode::kOk) == 1;
  });
}

TEST_F(UpsertStreamTest, WithoutItemsIsFine) {
  ASSERT_TRUE(stream_->WritesDone());
  EXPECT_TRUE(ReadAll().empty());
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(UpsertStreamTest, ItemsThatFindTheQueueFullSayWhenToTryAgain) {
  shard().FailOnce("Write", Overloaded("full", absl::Milliseconds(40)));
  ASSERT_TRUE(stream_->Write(Item(7)));
  v1::UpsertStreamResponse answer;
  ASSERT_TRUE(stream_->Read(&answer));
  const absl::Status status = FromRpcStatus(answer.error());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryAfterOf(status), absl::Milliseconds(40));
  ASSERT_TRUE(stream_->Write(Item(7)));
  ASSERT_TRUE(stream_->Read(&answer));
  EXPECT_EQ(answer.ack().upserted(), 1);
  stream_->WritesDone();
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(UpsertStreamTest, ReadsNoMoreThanTheItemsInWork) {
  shard().Hold("Write");
  std::thread writer([&] {
    for (int64_t item = 0; item < 50; ++item) stream_->Write(Item(item));
    stream_->WritesDone();
  });
  WaitUntil([&] { return shard().held() >= kItemsInWork; });
  AskOtherThings();
  EXPECT_EQ(shard().held(), kItemsInWork);
  EXPECT_EQ(shard().calls("Write"), kItemsInWork);
  shard().Release();
  EXPECT_EQ(ReadAll().size(), 50u);
  writer.join();
  EXPECT_TRUE(stream_->Finish().ok());
  EXPECT_EQ(shard().points("c"), 50);
}

// Answers come on another thread than items are read on.
TEST(UpsertStream, ItemsArriveUnchangedWhateverTheThreads) {
  FakeShardClient::Options own_thread;
  own_thread.own_thread = true;
  FakeCluster cluster(1, own_thread);
  ASSERT_TRUE(cluster.Create("c", 2).ok());
  TestServer server(cluster.coordinator.get(), {});
  grpc::ClientContext context;
  const auto stream = server.points->UpsertStream(&context);
  constexpr int kItems = 300;
  constexpr int kPoints = 20;
  std::thread writer([&] {
    for (int item = 0; item < kItems; ++item) {
      v1::UpsertStreamRequest request;
      request.set_item(item);
      std::vector<std::vector<float>> rows;
      for (int i = 0; i < kPoints; ++i) {
        rows.push_back({static_cast<float>(item), static_cast<float>(i)});
      }
      *request.mutable_request() = UpsertOf("c", rows);
      for (int i = 0; i < kPoints; ++i) {
        request.mutable_request()->mutable_points(i)->set_id(
            static_cast<uint64_t>(item * kPoints + i));
      }
      stream->Write(request);
    }
    stream->WritesDone();
  });
  v1::UpsertStreamResponse answer;
  int acknowledged = 0;
  while (stream->Read(&answer)) {
    EXPECT_EQ(answer.ack().upserted(), kPoints) << answer.ShortDebugString();
    ++acknowledged;
  }
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(acknowledged, kItems);
  for (PointId id = 0; id < kItems * kPoints; ++id) {
    const auto got = cluster.Get("c", {id});
    ASSERT_TRUE(got.ok() && got->points.size() == 1) << id;
    ASSERT_EQ(got->points[0].vector,
              (std::vector<float>{static_cast<float>(id / kPoints),
                                  static_cast<float>(id % kPoints)}));
  }
}

TEST_F(UpsertStreamTest, ItemsWithRequestIdsAreAppliedOneAfterTheOther) {
  shard().Hold("Write");
  for (int64_t item = 0; item < 5; ++item) {
    v1::UpsertStreamRequest request = Item(item);
    v1::RequestId* id = request.mutable_request()->mutable_request_id();
    id->set_client_id("me");
    // The third repeats the second.
    id->set_sequence(item == 2 ? 1 : item);
    if (item == 2) request.mutable_request()->mutable_points(0)->set_id(1);
    ASSERT_TRUE(stream_->Write(request));
  }
  stream_->WritesDone();
  WaitUntil([&] { return shard().held() >= 1; });
  AskOtherThings();
  EXPECT_EQ(shard().calls("Write"), 1);
  shard().Release();
  const auto answers = ReadAll();
  EXPECT_TRUE(stream_->Finish().ok());
  ASSERT_EQ(answers.size(), 5u);
  EXPECT_EQ(answers.at(1).ack().upserted(), 1);
  EXPECT_EQ(answers.at(2).ack().upserted(), 0);
  EXPECT_EQ(answers.at(2).ack().duplicates(), 1);
}

TEST_F(UpsertStreamTest, ACancelEndsItWhileItemsAreInWork) {
  shard().Hold("Write");
  for (int64_t item = 0; item < 3; ++item) {
    ASSERT_TRUE(stream_->Write(Item(item)));
  }
  WaitUntil([&] { return shard().held() == 3; });
  context_.TryCancel();
  EXPECT_EQ(stream_->Finish().error_code(), grpc::StatusCode::CANCELLED);
  // The server's side ends too, though no shard has answered.
  WaitUntil([&] {
    return server_.records.Count(kMethod, absl::StatusCode::kCancelled) == 1;
  });
  EXPECT_EQ(shard().last_call("Write").status().code(),
            absl::StatusCode::kCancelled)
      << "shards hear of it";
  server_.Shutdown();
  shard().Release();  // answers that nobody waits for
}

TEST_F(UpsertStreamTest, ADeadlineEndsIt) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(50));
  shard().Hold("Write");
  auto stream = server_.points->UpsertStream(&context);
  stream->Write(Item(1));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  context_.TryCancel();
}

}  // namespace
}  // namespace coterie
