// kill -9 of the real server at random moments under concurrent upserts and
// deletes: everything acknowledged is stored, nothing is that was not sent,
// what was deleted stays deleted, and index, store, counts and checksums agree.
//
// ROUNDS in the environment says how often, SEED with which random numbers.

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "api/grpc_status.h"
#include "api/placement.h"
#include "api/v1/collections.grpc.pb.h"
#include "api/v1/points.grpc.pb.h"
#include "api/v1/search.grpc.pb.h"
#include "gtest/gtest.h"
#include "sync/mutex.h"
#include "tests/kill9_history.h"
#include "tests/server_process.h"

namespace coterie {
namespace {

constexpr int kWriters = 4;
constexpr int32_t kSlots = 16;

// A number from the environment.
uint64_t Setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  uint64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// A connection to one life of the server.
struct Client {
  explicit Client(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(16 << 20);
    // Not the connection of an earlier life.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    auto channel = grpc::CreateCustomChannel(
        address, grpc::InsecureChannelCredentials(), arguments);
    collections = v1::CollectionService::NewStub(channel);
    points = v1::PointService::NewStub(channel);
    search = v1::SearchService::NewStub(channel);
  }

  // Until the server has loaded.
  bool AwaitServing() {
    absl::Status status;
    do {
      grpc::ClientContext context;
      context.set_wait_for_ready(true);
      v1::ListCollectionsResponse response;
      status =
          FromGrpcStatus(collections->ListCollections(&context, {}, &response));
    } while (absl::IsUnavailable(status));
    EXPECT_TRUE(status.ok()) << status;
    return status.ok();
  }

  std::unique_ptr<v1::CollectionService::Stub> collections;
  std::unique_ptr<v1::PointService::Stub> points;
  std::unique_ptr<v1::SearchService::Stub> search;
};

// Counts acknowledgements for who waits for them.
class Counter {
 public:
  void Add() {
    MutexLock lock(&mu_);
    ++count_;
    changed_.NotifyAll();
  }
  void WaitFor(int64_t count) {
    MutexLock lock(&mu_);
    while (count_ < count) changed_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int64_t count_ ABSL_GUARDED_BY(mu_) = 0;
};

absl::Status Send(Client* client, const Kill9History& history,
                  const Kill9History::Write& write) {
  grpc::ClientContext context;
  if (write.is_delete) {
    v1::DeleteResponse response;
    return FromGrpcStatus(
        client->points->Delete(&context, history.DeleteOf(write), &response));
  }
  v1::UpsertResponse response;
  const absl::Status status = FromGrpcStatus(
      client->points->Upsert(&context, history.UpsertOf(write), &response));
  if (status.ok()) {
    EXPECT_EQ(response.upserted() + response.duplicates(),
              static_cast<int64_t>(write.ids.size()));
  }
  return status;
}

// Writes until the server is gone; first what was not answered in its last
// life.
void WriteUntilKilled(Client* client, uint64_t seed, Kill9History* history,
                      Counter* acknowledged) {
  std::mt19937_64 random(seed);
  if (!history->pending().has_value()) history->Next(&random);
  for (;;) {
    const absl::Status status = Send(client, *history, *history->pending());
    if (!status.ok()) {
      EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsCancelled(status))
          << "the only failure is the kill: " << status;
      return;
    }
    history->Acknowledge();
    acknowledged->Add();
    history->Next(&random);
  }
}

// All points by scan; every vector and attribute must be of one version.
std::map<PointId, int64_t> ScanAll(Client* client) {
  grpc::ClientContext context;
  v1::ScanRequest request;
  request.set_collection("c");
  request.set_with_vectors(true);
  request.mutable_with_attributes()->set_all(true);
  const auto reader = client->points->Scan(&context, request);
  std::map<PointId, int64_t> stored;
  v1::ScanResponse page;
  while (reader->Read(&page)) {
    for (const v1::Point& point : page.points()) {
      const int64_t version = point.attributes().at("version").int_value();
      EXPECT_TRUE(stored.emplace(point.id(), version).second)
          << point.id() << " comes twice";
      const std::vector<float> vector =
          Kill9History::VectorOf(point.id(), version);
      const std::string bytes(reinterpret_cast<const char*>(vector.data()),
                              vector.size() * sizeof(float));
      EXPECT_EQ(point.vector().packed().data(), bytes)
          << point.id() << ": a vector of another version";
    }
  }
  const absl::Status status = FromGrpcStatus(reader->Finish());
  EXPECT_TRUE(status.ok()) << status;
  return stored;
}

void ExpectCountAgrees(Client* client,
                       const std::map<PointId, int64_t>& stored) {
  grpc::ClientContext context;
  v1::CountRequest request;
  request.set_collection("c");
  v1::CountResponse response;
  const absl::Status status =
      FromGrpcStatus(client->points->Count(&context, request, &response));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(response.count(), static_cast<int64_t>(stored.size()));
}

// Rows and checksums of each slot, as the certificate must show them.
void ExpectSlotsAgree(const v1::Certificate& certificate,
                      const std::map<PointId, int64_t>& stored) {
  std::map<int32_t, std::pair<int64_t, uint64_t>> expected;
  for (int32_t slot = 0; slot < kSlots; ++slot) expected[slot] = {0, 0};
  for (const auto& [id, version] : stored) {
    auto& [rows, checksum] = expected[SlotOf(id, kSlots)];
    ++rows;
    checksum += SplitMix64(id);
  }
  std::map<int32_t, std::pair<int64_t, uint64_t>> found;
  for (const v1::ShardCertificate& shard : certificate.shards()) {
    for (const v1::SlotState& slot : shard.slots()) {
      EXPECT_TRUE(found
                      .emplace(slot.slot(),
                               std::make_pair(slot.rows(), slot.id_checksum()))
                      .second);
    }
  }
  EXPECT_EQ(found, expected);
}

// The index holds what the store holds.
void ExpectSearchAgrees(Client* client,
                        const std::map<PointId, int64_t>& stored) {
  grpc::ClientContext context;
  v1::SearchRequest request;
  request.set_collection("c");
  request.set_profile(true);
  request.set_k(10000);
  const std::vector<float> query = {10, 20, 30, 1};
  request.add_queries()
      ->mutable_vector()
      ->mutable_values()
      ->mutable_values()
      ->Add(query.begin(), query.end());
  v1::SearchResponse response;
  const absl::Status status =
      FromGrpcStatus(client->search->Search(&context, request, &response));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(response.results(0).exact()) << response.certificate().withheld();
  ASSERT_EQ(response.results(0).hits_size(), static_cast<int>(stored.size()));
  for (const v1::Hit& hit : response.results(0).hits()) {
    const auto found = stored.find(hit.id());
    ASSERT_NE(found, stored.end()) << hit.id() << " is not in the store";
    const std::vector<float> vector =
        Kill9History::VectorOf(hit.id(), found->second);
    double distance = 0;  // whole numbers: exact in any order
    for (size_t i = 0; i < query.size(); ++i) {
      const double difference = double{vector[i]} - double{query[i]};
      distance += difference * difference;
    }
    EXPECT_EQ(hit.distance(), distance)
        << hit.id() << " has the vector of another version";
  }
  ExpectSlotsAgree(response.certificate(), stored);
}

void Create(Client* client) {
  grpc::ClientContext context;
  v1::CreateCollectionRequest request;
  request.mutable_collection()->set_name("c");
  request.mutable_collection()->set_dimension(Kill9History::kDimension);
  request.mutable_collection()->set_metric(v1::SQUARED_L2);
  request.mutable_collection()->set_slots(kSlots);
  v1::CreateCollectionResponse response;
  const absl::Status status = FromGrpcStatus(
      client->collections->CreateCollection(&context, request, &response));
  ASSERT_TRUE(status.ok()) << status;
}

// Compares what is stored with what every writer knows.
void ExpectNothingLost(Client* client, std::vector<Kill9History>* histories) {
  const std::map<PointId, int64_t> stored = ScanAll(client);
  std::set<PointId> known;
  for (Kill9History& history : *histories) {
    EXPECT_EQ(history.Adopt(stored), "");
    for (const PointId id : history.ids()) known.insert(id);
  }
  for (const auto& [id, version] : stored) {
    EXPECT_EQ(known.count(id), 1u) << id << " was never sent";
  }
  ExpectCountAgrees(client, stored);
  ExpectSearchAgrees(client, stored);
}

TEST(Kill9, LosesNothingAcknowledgedAndInventsNothing) {
  const uint64_t seed = Setting("SEED", 20240229);
  const uint64_t rounds = Setting("ROUNDS", 20);
  SCOPED_TRACE(absl::StrCat("SEED=", seed, " ROUNDS=", rounds));
  std::mt19937_64 random(seed);
  const std::string data_dir = testing::TempDir() + "/kill9";
  std::vector<Kill9History> histories;
  for (int i = 0; i < kWriters; ++i) histories.emplace_back(i);
  for (uint64_t round = 0; round <= rounds; ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    ServerProcess server(data_dir);
    ASSERT_NE(server.address(), "") << "it does not start";
    Client client(server.address());
    ASSERT_TRUE(client.AwaitServing());
    if (round == 0) Create(&client);
    ExpectNothingLost(&client, &histories);
    if (HasFailure() || round == rounds) return;
    Counter acknowledged;
    std::vector<std::thread> writers;
    for (Kill9History& history : histories) {
      writers.emplace_back(WriteUntilKilled, &client, random(), &history,
                           &acknowledged);
    }
    acknowledged.WaitFor(static_cast<int64_t>(random() % 120));
    // Anywhere within the next writes.
    for (std::atomic<uint64_t> spin{random() % 3000000}; spin > 0; --spin) {
    }
    server.Kill();
    for (std::thread& writer : writers) writer.join();
  }
}

}  // namespace
}  // namespace coterie
