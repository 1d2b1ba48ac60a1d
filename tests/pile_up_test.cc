// More calls than a coordinator may hold pile up at it while a shard stands
// still: its memory stays bounded, and what finds no room is refused at once.
//
// PILE in the environment says how many pile up in the largest case. Prints
// what it measured.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/grpc_status.h"
#include "api/status_details.h"
#include "gtest/gtest.h"
#include "tests/stopped_shard.h"

namespace coterie {
namespace {

// How its memory may grow, and how much it may have; under asan what is freed
// stays.
#ifdef __SANITIZE_ADDRESS__
constexpr int64_t kMostGrowth = int64_t{800} << 20;
constexpr int64_t kMostMemory = int64_t{1536} << 20;
#else
constexpr int64_t kMostGrowth = int64_t{256} << 20;
constexpr int64_t kMostMemory = int64_t{1} << 30;
#endif

// Beside a coordinator that may handle 16 MiB of requests at once.
class PileUp : public StoppedShard {
 protected:
  static constexpr size_t kCalls = 192;
  static constexpr size_t kChannels = 8;

  void SetUp() override {
    StoppedShard::SetUp();
    bounded_ = std::make_unique<ServerProcess>(
        testing::TempDir() + "/bounded",
        std::vector<std::string>{
            "--role=coordinator", "--shards=" + shard_addresses_,
            absl::StrCat("--max_inflight_bytes=", 16 << 20)});
    ASSERT_FALSE(bounded_->address().empty());
    for (size_t i = 0; i < kChannels; ++i) {
      const auto channel = NewChannel(*bounded_);
      writers_.push_back(v1::PointService::NewStub(channel));
      readers_.push_back(v1::SearchService::NewStub(channel));
    }
  }

  // `count` vectors of `dimension`, to upsert into and to look for in it.
  void Fill(const std::string& collection, int count, int dimension) {
    upsert_.set_collection(collection);
    search_for_.set_collection(collection);
    search_for_.set_k(1);
    for (int i = 0; i < count; ++i) {
      v1::Point* point = upsert_.add_points();
      point->set_id(static_cast<uint64_t>(i));
      point->mutable_vector()->mutable_values()->mutable_values()->Resize(
          dimension, static_cast<float>(i));
      *search_for_.add_queries()->mutable_vector() = point->vector();
    }
  }

  // The same with 1 MiB of vectors and a collection that is made for them.
  void FillWide() {
    v1::CreateCollectionRequest create;
    create.mutable_collection()->set_name("wide");
    create.mutable_collection()->set_dimension(1024);
    create.mutable_collection()->set_metric(v1::SQUARED_L2);
    v1::CreateCollectionResponse created;
    grpc::ClientContext context;
    ASSERT_TRUE(
        collections_->CreateCollection(&context, create, &created).ok());
    Fill("wide", 256, 1024);
    ASSERT_TRUE(UpsertOnce(0).ok());
  }

  absl::Status UpsertOnce(size_t channel) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
    v1::UpsertResponse response;
    return FromGrpcStatus(
        writers_[channel]->Upsert(&context, upsert_, &response));
  }

  struct UnderWay {
    grpc::ClientContext context;
    v1::UpsertResponse upserted;
    v1::SearchResponse found;
    absl::Status status;
    absl::Notification ended;
  };

  void Start(size_t i, UnderWay* call) {
    const auto end = [this, call](const grpc::Status& status) {
      call->status = FromGrpcStatus(status);
      ++ended_;
      call->ended.Notify();
    };
    const size_t channel = i / 2 % kChannels;
    if (i % 2 == 0) {
      writers_[channel]->async()->Upsert(&call->context, &upsert_,
                                         &call->upserted, end);
    } else {
      readers_[channel]->async()->Search(&call->context, &search_for_,
                                         &call->found, end);
    }
  }

  // Sends upserts and searches, all at once, while a shard stands still: those
  // that find no room are told so at once and when to come back, the memory
  // stays bounded, and everything works afterwards.
  void ExpectBounded() {
    shards_[1]->Signal(SIGSTOP);
    const int64_t before = bounded_->ResidentBytes();
    const auto deadline = absl::ToChronoTime(absl::Now() + absl::Seconds(30));
    std::vector<UnderWay> calls(kCalls);
    for (size_t i = 0; i < kCalls; ++i) {
      calls[i].context.set_deadline(deadline);
      Start(i, &calls[i]);
    }
    int64_t most = before;
    int refused = 0;
    while (ended_ < static_cast<int>(kCalls) * 3 / 4) {
      most = std::max(most, bounded_->ResidentBytes());
      std::this_thread::yield();
    }
    shards_[1]->Signal(SIGCONT);
    for (UnderWay& call : calls) {
      call.ended.WaitForNotification();
      if (absl::IsResourceExhausted(call.status)) {
        ++refused;
        EXPECT_TRUE(RetryAfterOf(call.status).has_value()) << call.status;
      } else {
        EXPECT_TRUE(call.status.ok()) << call.status;
      }
    }
    std::cout << kCalls << " calls: " << refused << " refused, memory grew by "
              << ((most - before) >> 20) << " MiB\n";
    EXPECT_GE(refused, static_cast<int>(kCalls / 2));
    EXPECT_LT(most - before, kMostGrowth);
    EXPECT_TRUE(UpsertOnce(0).ok());
  }

  std::unique_ptr<ServerProcess> bounded_;
  std::vector<std::unique_ptr<v1::PointService::Stub>> writers_;
  std::vector<std::unique_ptr<v1::SearchService::Stub>> readers_;
  v1::UpsertRequest upsert_;
  v1::SearchRequest search_for_;
  std::atomic<int> ended_{0};
};

TEST_F(PileUp, OfLargeCallsIsBoundedAndRefusedAtOnce) {
  FillWide();
  ExpectBounded();
}

// More than the process may ever hold: of 1 MiB each, from 50 connections, the
// bytes being those of one request for all of them.
TEST_F(PileUp, OfManyThousandCallsStaysWithinAGibibyte) {
  const auto calls = static_cast<size_t>(Setting("PILE", 600));
  FillWide();
  grpc::ByteBuffer bytes;
  bool own = false;
  ASSERT_TRUE(grpc::SerializationTraits<google::protobuf::Message>::Serialize(
                  upsert_, &bytes, &own)
                  .ok());
  ASSERT_GT(bytes.Length(), size_t{1} << 20);
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs;
  for (int i = 0; i < 50; ++i) {
    stubs.push_back(std::make_unique<grpc::GenericStub>(NewChannel(*bounded_)));
  }
  shards_[1]->Signal(SIGSTOP);
  struct Piled {
    grpc::ClientContext context;
    grpc::ByteBuffer reply;
    absl::Status status;
  };
  std::vector<Piled> piled(calls);
  std::atomic<size_t> ended{0};
  const auto deadline = absl::ToChronoTime(absl::Now() + absl::Seconds(100));
  for (size_t i = 0; i < calls; ++i) {
    piled[i].context.set_deadline(deadline);
    stubs[i % stubs.size()]->UnaryCall(
        &piled[i].context, "/coterie.v1.PointService/Upsert", {}, &bytes,
        &piled[i].reply, [&, i](const grpc::Status& status) {
          piled[i].status = FromGrpcStatus(status);
          ++ended;
        });
  }
  int64_t most = 0;
  while (ended < calls * 9 / 10) {
    most = std::max(most, bounded_->ResidentBytes());
    std::this_thread::yield();
  }
  shards_[1]->Signal(SIGCONT);
  while (ended < calls) std::this_thread::yield();
  size_t refused = 0;
  for (const Piled& call : piled) {
    refused += absl::IsResourceExhausted(call.status) ? 1 : 0;
    EXPECT_FALSE(absl::IsDeadlineExceeded(call.status)) << call.status;
  }
  std::cout << calls << " calls: " << refused << " refused, at most "
            << (most >> 20) << " MiB\n";
  EXPECT_GE(refused, calls * 9 / 10);
  EXPECT_LT(most, kMostMemory);
  EXPECT_TRUE(UpsertOnce(0).ok());
}

// On the wire they have 64 to 100 KiB, all together hardly more than the bound.
TEST_F(PileUp, OfManySmallThingsIsBoundedByWhatTheyTakeInMemory) {
  Fill("c", 4096, 2);
  ASSERT_TRUE(UpsertOnce(0).ok());
  ExpectBounded();
}

}  // namespace
}  // namespace coterie
