// What only the wire between coordinator and shard can do wrong: shards that
// are someone else, vanish and come back; messages that are too large; bytes
// that are miscounted. (Shards that lie: coordinator/grpc_shard_client_test.)

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "api/shard_convert.h"
#include "api/status_details.h"
#include "api/v1/shard.grpc.pb.h"
#include "coordinator/coordinator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sync/mutex.h"
#include "tests/local_cluster.h"
#include "tests/served_shard.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

constexpr char kUuid[] = "01234567-89ab-4def-8123-456789abcdef";

std::string NewFolder() {
  const char* parent = std::getenv("TEST_TMPDIR");
  std::string path = absl::StrCat(parent == nullptr ? "/tmp" : parent, "/wire.",
                                  std::string(6, 'X'));
  EXPECT_NE(mkdtemp(path.data()), nullptr);
  return path;
}

ShardOptions OnlyShard() {
  ShardOptions options;
  options.cluster_uuid = kUuid;
  options.path = NewFolder();
  return options;
}

absl::StatusOr<CountReply> Count(ShardClient& client, CallContext call = {}) {
  return Await<CountReply>([&](Done<CountReply> done) {
    client.Count({"c", {}}, std::move(call), std::move(done));
  });
}

SearchRequest Nearest(int64_t k) {
  SearchRequest request;
  request.collection = "c";
  request.queries.assign(1, std::vector<float>{1, 2});
  request.k = k;
  return request;
}

absl::StatusOr<ShardSearchReply> Search(ShardClient& client, int64_t k,
                                        CallContext call = {}) {
  return Await<ShardSearchReply>([&](Done<ShardSearchReply> done) {
    client.Search(std::make_shared<SearchRequest>(Nearest(k)), std::move(call),
                  std::move(done));
  });
}

// Collection "c" of n points.
void Fill(ShardClient& client, int64_t n) {
  Catalogue catalogue;
  catalogue.version = 1;
  catalogue.next_number = 2;
  catalogue.collections = {{"c", 1, 2, Metric::kSquaredL2, 1, {0}}};
  ASSERT_TRUE(Await<int64_t>([&](Done<int64_t> done) {
                client.PutCatalogue(0, catalogue, {}, std::move(done));
              }).ok());
  WriteBatch batch{"c", {}, {}};
  for (int64_t i = 0; i < n; ++i) {
    batch.upserts.push_back(
        {static_cast<PointId>(i), {static_cast<float>(i), 0}, {}});
  }
  ASSERT_TRUE(Await<WriteReply>([&](Done<WriteReply> done) {
                client.Write(batch, {}, std::move(done));
              }).ok());
}

// Tells of the end of one RPC.
class Watcher {
 public:
  RpcObserver Observer() {
    return [this](absl::string_view method, absl::StatusCode code, double) {
      MutexLock lock(&mu_);
      codes_[std::string(method)].push_back(code);
      changed_.NotifyAll();
    };
  }
  // Waits for the first.
  absl::StatusCode First(const std::string& method) {
    MutexLock lock(&mu_);
    while (codes_[method].empty()) changed_.Wait(&mu_);
    return codes_[method].front();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::map<std::string, std::vector<absl::StatusCode>> codes_
      ABSL_GUARDED_BY(mu_);
};

TEST(ShardWire, CancellingReachesTheShardAtOnce) {
  Watcher watcher;
  ServedShard served(OnlyShard(), watcher.Observer());
  const auto client = served.OverGrpc();
  Fill(*client, 10);
  const Blocked blocked(served.shard());
  const auto token = std::make_shared<CancelToken>();
  std::promise<absl::Status> ended;
  client->Search(std::make_shared<SearchRequest>(Nearest(1)),
                 {absl::InfiniteFuture(), token},
                 [&](const absl::StatusOr<ShardSearchReply>& reply) {
                   ended.set_value(reply.status());
                 });
  // Once the request is there, and before any thread of the shard is free.
  const auto waiting = [&] {
    return Await<ShardDescription>([&](Done<ShardDescription> done) {
             served.shard().Describe({}, std::move(done));
           })
        ->queue_length;
  };
  while (waiting() == 0) std::this_thread::yield();
  token->Cancel();
  EXPECT_EQ(watcher.First("ShardService/Search"), absl::StatusCode::kCancelled);
  const absl::Status status = ended.get_future().get();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ShardOf(status), 0);
}

TEST(ShardWire, TheDeadlineEndsACallThatWaits) {
  ServedShard served(OnlyShard());
  const auto client = served.OverGrpc();
  Fill(*client, 10);
  const Blocked blocked(served.shard());
  const absl::Status status =
      Search(*client, 1, {absl::Now() + absl::Milliseconds(50), nullptr})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ShardOf(status), 0);
  EXPECT_THAT(std::string(status.message()), HasSubstr(served.address()));
}

TEST(ShardWire, ACallWithoutADeadlineHasOneAllTheSame) {
  ServedShard served(OnlyShard());
  GrpcShardClientOptions options;
  Fill(*served.OverGrpc(), 10);
  options.longest_call = absl::Milliseconds(50);
  const auto client = served.OverGrpc(options);
  const Blocked blocked(served.shard());
  EXPECT_EQ(Search(*client, 1).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(ShardWire, AReplyOverTheLimitIsRefusedNamingIt) {
  ShardOptions options = OnlyShard();
  options.limits.message_bytes = 8192;
  ServedShard served(options);
  Fill(*served.InProcess(), 1000);
  const auto client = served.OverGrpc();
  EXPECT_TRUE(Search(*client, 100).ok());
  const absl::Status shard_says = Search(*client, 1000).status();
  EXPECT_EQ(shard_says.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(shard_says.message()), HasSubstr("message_bytes"));
  EXPECT_FALSE(RetryAfterOf(shard_says).has_value());

  // Also when it is the coordinator that takes less than the shard sends.
  options = OnlyShard();
  ServedShard generous(options);
  Fill(*generous.InProcess(), 1000);
  GrpcShardClientOptions tight;
  tight.message_bytes = 8192;
  const absl::Status client_says =
      Search(*generous.OverGrpc(tight), 1000).status();
  EXPECT_EQ(client_says.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(client_says.message()),
              HasSubstr("message_bytes of 8192"));
}

TEST(ShardWire, ARequestOverTheLimitIsNotSent) {
  ServedShard served(OnlyShard());
  Fill(*served.InProcess(), 10);
  GrpcShardClientOptions tight;
  tight.message_bytes = 1000;
  tight.counters = std::make_shared<WireCounters>();
  const auto client = served.OverGrpc(tight);
  WriteBatch batch{"c", {}, {}};
  for (PointId id = 0; id < 100; ++id)
    batch.upserts.push_back({id, {1, 2}, {}});
  const absl::Status status = Await<WriteReply>([&](Done<WriteReply> done) {
                                client->Write(batch, {}, std::move(done));
                              }).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("message_bytes of 1000"));
  EXPECT_EQ(ShardOf(status), 0);
  EXPECT_EQ(tight.counters->totals().messages_sent, 0);
  EXPECT_TRUE(Count(*client).ok());
}

TEST(ShardWire, CountersAreTheSizesOfTheMessages) {
  ServedShard served(OnlyShard());
  Fill(*served.InProcess(), 100);
  GrpcShardClientOptions options;
  options.counters = std::make_shared<WireCounters>();
  const auto client = served.OverGrpc(options);
  const auto reply = Search(*client, 10);
  ASSERT_TRUE(reply.ok()) << reply.status();

  v1::ShardSearchRequest request;
  EncodeShardRequest(Nearest(10), &request);
  request.mutable_header()->set_shard_id(0);
  request.mutable_header()->set_cluster_uuid(kUuid);
  EXPECT_EQ(reply->link.bytes_sent,
            static_cast<int64_t>(request.SerializeAsString().size()) + 5);
  // The same call by hand; times are of one size unless they are 0.
  auto stub = v1::ShardService::NewStub(grpc::CreateChannel(
      served.address(), grpc::InsecureChannelCredentials()));
  v1::ShardSearchResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(stub->Search(&context, request, &response).ok());
  response.mutable_profile()->set_queue_seconds(reply->times.queue_seconds);
  response.mutable_profile()->set_scan_seconds(reply->times.scan_seconds);
  EXPECT_EQ(reply->link.bytes_received,
            static_cast<int64_t>(response.SerializeAsString().size()) + 5);

  const WireCounters::Totals near = options.counters->totals();
  EXPECT_EQ(near.messages_sent, 1);
  EXPECT_EQ(near.messages_received, 1);
  EXPECT_EQ(near.bytes_sent, reply->link.bytes_sent);
  EXPECT_EQ(near.bytes_received, reply->link.bytes_received);
  const WireCounters::Totals far = served.counters->totals();
  EXPECT_EQ(far.messages_received, 2);
  EXPECT_EQ(far.bytes_received, 2 * near.bytes_sent);
  EXPECT_EQ(far.messages_sent, 2);
}

TEST(ShardWire, PagesOfAScanAreCountedAtBothEnds) {
  ShardOptions shard = OnlyShard();
  shard.limits.scan_page_bytes = 256;
  ServedShard served(shard);
  Fill(*served.InProcess(), 100);
  GrpcShardClientOptions options;
  options.counters = std::make_shared<WireCounters>();
  const auto client = served.OverGrpc(options);
  ScanRequest request;
  request.collection = "c";
  request.with_vectors = true;
  const auto stream = client->Scan(request, {});
  for (bool end = false; !end;) {
    const auto page = Await<ScanPage>(
        [&](Done<ScanPage> done) { stream->Next(std::move(done)); });
    ASSERT_TRUE(page.ok()) << page.status();
    end = page->end;
  }
  const WireCounters::Totals near = options.counters->totals();
  const WireCounters::Totals far = served.counters->totals();
  EXPECT_EQ(near.messages_sent, 1);
  EXPECT_GT(near.messages_received, 3);
  EXPECT_EQ(near.bytes_sent, far.bytes_received);
  EXPECT_EQ(near.messages_received, far.messages_sent);
  EXPECT_EQ(near.bytes_received, far.bytes_sent);
}

// --- Who is there -----------------------------------------------------------

TEST(ShardWire, AShardThatComesBackIsFoundAgain) {
  const ShardOptions options = OnlyShard();
  // A name that stays ours while nobody listens, as a port would not.
  const std::string address =
      absl::StrCat("unix-abstract:coterie-wire-test-", getpid());
  auto served = std::make_unique<ServedShard>(options, nullptr, address);
  Fill(*served->InProcess(), 10);
  const auto client = served->OverGrpc();
  EXPECT_EQ(client->incarnation(), 0);
  ASSERT_TRUE(Count(*client).ok());
  const int64_t before = client->incarnation();
  served.reset();
  EXPECT_EQ(Count(*client).status().code(), absl::StatusCode::kUnavailable);
  served = std::make_unique<ServedShard>(options, nullptr, address);
  absl::StatusOr<CountReply> count = Count(*client);
  while (!count.ok()) {
    ASSERT_EQ(count.status().code(), absl::StatusCode::kUnavailable);
    count = Count(*client);
  }
  EXPECT_EQ(count->count, 10);
  EXPECT_EQ(client->incarnation(), before + 1);
}

TEST(ShardWire, AShardThatMovesIsFollowedByItsChannel) {
  const ShardOptions options = OnlyShard();
  auto served = std::make_unique<ServedShard>(options);
  Fill(*served->InProcess(), 10);
  const auto client = served->OverGrpc();
  ASSERT_TRUE(Count(*client).ok());
  served.reset();
  served = std::make_unique<ServedShard>(options);
  client->SetChannel(MakeShardChannel(served->address(), 16 << 20),
                     served->address());
  EXPECT_EQ(client->address(), served->address());
  const auto count = Count(*client);
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_EQ(count->count, 10);
}

TEST(ShardWire, ARequestForAnotherShardOrClusterIsRefused) {
  ServedShard served(OnlyShard());
  const auto channel = MakeShardChannel(served.address(), 16 << 20);
  const auto other = MakeGrpcShardClient(7, channel, served.address(), {});
  const absl::Status shard = Count(*other).status();
  EXPECT_EQ(shard.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(shard.message()), HasSubstr("for shard 7"));
  EXPECT_THAT(std::string(shard.message()), HasSubstr("is shard 0"));
  GrpcShardClientOptions options;
  options.cluster_uuid = "another";
  const auto foreign =
      MakeGrpcShardClient(0, channel, served.address(), options);
  const absl::Status cluster = Count(*foreign).status();
  EXPECT_EQ(cluster.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(cluster.message()), HasSubstr("another"));
  // Whoever is there, it says who it is.
  const auto anyone = MakeGrpcShardClient(-1, channel, served.address(), {});
  const auto shard_0 = Await<ShardDescription>(
      [&](Done<ShardDescription> d) { anyone->Describe({}, std::move(d)); });
  ASSERT_TRUE(shard_0.ok()) << shard_0.status();
  EXPECT_EQ(shard_0->shard_id, 0);
  EXPECT_EQ(shard_0->cluster_uuid, kUuid);
}

// --- What a search costs ----------------------------------------------------

absl::StatusOr<SearchReply> Profiled(Coordinator& coordinator) {
  SearchRequest request = Nearest(10);
  request.profile = true;
  return Await<SearchReply>([&](Done<SearchReply> done) {
    coordinator.Search(request, {}, std::move(done));
  });
}

TEST(ShardWire, AProfiledSearchTellsWhatItCost) {
  ServedShard served(OnlyShard());
  Fill(*served.InProcess(), 100);
  GrpcShardClientOptions options;
  options.counters = std::make_shared<WireCounters>();
  auto coordinator = Coordinator::Create({served.OverGrpc(options)}, {});
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  WireCounters::Totals before = options.counters->totals();
  auto reply = Profiled(**coordinator);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->results[0].exact) << reply->certificate.withheld;
  WireCounters::Totals after = options.counters->totals();
  EXPECT_EQ(reply->cost.messages, 2);
  EXPECT_EQ(reply->cost.bytes_sent, after.bytes_sent - before.bytes_sent);
  EXPECT_EQ(reply->cost.bytes_received,
            after.bytes_received - before.bytes_received);
  EXPECT_GT(reply->cost.bytes_sent, 0);
  EXPECT_GT(reply->cost.measured_seconds, 0);
  EXPECT_GT(reply->cost.compute_seconds, 0);
  EXPECT_EQ(reply->cost.ratio,
            reply->cost.compute_seconds / reply->cost.measured_seconds);
  EXPECT_EQ(reply->cost.predicted_seconds, 0);  // nothing was known
  reply = Profiled(**coordinator);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_GT(reply->cost.predicted_seconds, 0);
  EXPECT_LT(reply->cost.predicted_seconds, 60);
}

TEST(ShardWire, BytesSavedAreWhatAskingForKAtOnceWouldHaveCost) {
  std::vector<std::unique_ptr<ServedShard>> served;
  std::vector<std::shared_ptr<ShardClient>> clients;
  for (int32_t i = 0; i < 4; ++i) {
    ShardOptions options = OnlyShard();
    options.shard_id = i;
    options.shards_total = 4;
    served.push_back(std::make_unique<ServedShard>(options));
    clients.push_back(served.back()->OverGrpc());
  }
  auto coordinator = Coordinator::Create(clients, {});
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  CollectionSpec spec;
  spec.name = "c";
  spec.dimension = 2;
  ASSERT_TRUE(Await<CollectionSpec>([&](Done<CollectionSpec> done) {
                (*coordinator)->CreateCollection(spec, {}, std::move(done));
              }).ok());
  WriteBatch batch;
  batch.collection = "c";
  for (PointId id = 0; id < 4000; ++id) {
    batch.upserts.push_back({id, {static_cast<float>(id), 0}, {}});
  }
  ASSERT_TRUE(Await<WriteReply>([&](Done<WriteReply> done) {
                (*coordinator)->Upsert(batch, {}, std::move(done));
              }).ok());
  SearchRequest request = Nearest(1000);
  request.with_vectors = true;
  int64_t at_once = 0;
  for (const auto& client : clients) {
    const auto reply = Await<ShardSearchReply>([&](Done<ShardSearchReply> d) {
      client->Search(std::make_shared<SearchRequest>(request), {},
                     std::move(d));
    });
    ASSERT_TRUE(reply.ok()) << reply.status();
    at_once += reply->link.bytes_received;
  }
  const auto reply = Await<SearchReply>([&](Done<SearchReply> done) {
    (*coordinator)->Search(request, {}, std::move(done));
  });
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->results[0].exact) << reply->certificate.withheld;
  ASSERT_EQ(reply->results[0].hits.size(), 1000u);
  EXPECT_EQ(reply->rounds, 1);
  EXPECT_LT(reply->cost.bytes_received, at_once / 2);
  // Lengths and counts, too, take a few bytes less.
  EXPECT_NEAR(
      static_cast<double>(reply->cost.bytes_received + reply->cost.bytes_saved),
      static_cast<double>(at_once), 100.0);
}

TEST(ShardWire, WithinTheProcessNoByteIsSent) {
  ServedShard served(OnlyShard());
  Fill(*served.InProcess(), 100);
  auto coordinator = Coordinator::Create({served.InProcess()}, {});
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  for (int i = 0; i < 2; ++i) {
    const auto reply = Profiled(**coordinator);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->cost.messages, 2);
    EXPECT_EQ(reply->cost.bytes_sent, 0);
    EXPECT_EQ(reply->cost.bytes_received, 0);
    EXPECT_EQ(reply->cost.predicted_seconds, 0);
  }
}

}  // namespace
}  // namespace coterie
