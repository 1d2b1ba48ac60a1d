#include "tests/local_cluster.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "server/in_process_shard_client.h"

namespace coterie {
namespace {

std::string NewFolder() {
  static std::atomic<int> next{0};
  const char* base = std::getenv("TEST_TMPDIR");
  return absl::StrCat(base != nullptr ? base : "/tmp", "/cluster-", getpid(),
                      "-", next++);
}

void CheckOk(const absl::Status& status, const char* what) {
  if (!status.ok()) {
    std::cerr << "LocalCluster: " << what << ": " << status << std::endl;
    std::abort();
  }
}

}  // namespace

LocalCluster::LocalCluster(LocalClusterOptions options)
    : options_(options), folder_(NewFolder()) {
  std::filesystem::create_directories(folder_);
  Open();
}

LocalCluster::~LocalCluster() {
  Close();
  std::filesystem::remove_all(folder_);
}

void LocalCluster::Restart() {
  Close();
  Open();
}

void LocalCluster::Open() {
  for (int32_t i = 0; i < options_.shards; ++i) {
    ShardOptions shard;
    shard.shard_id = i;
    shard.shards_total = options_.shards;
    shard.cluster_uuid = "01234567-89ab-4def-8123-456789abcdef";
    shard.path = absl::StrCat(folder_, "/shard-", i);
    shard.threads = options_.threads;
    shard.tail_rows = options_.tail_rows;
    shard.index_rows = options_.index_rows;
    auto opened = Shard::Open(shard);
    CheckOk(opened.status(), "open shard");
    shards_.push_back(*std::move(opened));
  }
  coordinator_ = AnotherCoordinator();
}

std::unique_ptr<Coordinator> LocalCluster::AnotherCoordinator() {
  std::vector<std::shared_ptr<ShardClient>> clients;
  for (int32_t i = 0; i < options_.shards; ++i) {
    clients.push_back(
        MakeInProcessShardClient(i, shards_[static_cast<size_t>(i)]));
  }
  auto coordinator =
      Coordinator::Create(std::move(clients), options_.coordinator);
  CheckOk(coordinator.status(), "create coordinator");
  return *std::move(coordinator);
}

void LocalCluster::Close() {
  coordinator_.reset();
  for (const auto& shard : shards_) {
    shard->Stop();
  }
  shards_.clear();
}

absl::Status LocalCluster::Create(const std::string& name, int32_t dimension,
                                  Metric metric, int32_t slots) {
  CollectionSpec spec;
  spec.name = name;
  spec.dimension = dimension;
  spec.metric = metric;
  spec.slots = slots;
  return Await<CollectionSpec>([&](Done<CollectionSpec> done) {
           coordinator_->CreateCollection(spec, {}, std::move(done));
         })
      .status();
}

absl::StatusOr<WriteReply> LocalCluster::Upsert(const std::string& collection,
                                                std::vector<Point> points) {
  WriteBatch batch;
  batch.collection = collection;
  batch.upserts = std::move(points);
  return Await<WriteReply>([&](Done<WriteReply> done) {
    coordinator_->Upsert(std::move(batch), {}, std::move(done));
  });
}

absl::StatusOr<WriteReply> LocalCluster::Delete(const std::string& collection,
                                                std::vector<PointId> ids) {
  return Await<WriteReply>([&](Done<WriteReply> done) {
    coordinator_->Delete(collection, std::move(ids), {}, std::move(done));
  });
}

absl::StatusOr<SearchReply> LocalCluster::Search(SearchRequest request) {
  return Await<SearchReply>([&](Done<SearchReply> done) {
    coordinator_->Search(std::move(request), {}, std::move(done));
  });
}

absl::StatusOr<GetReply> LocalCluster::Get(GetRequest request) {
  return Await<GetReply>([&](Done<GetReply> done) {
    coordinator_->Get(std::move(request), {}, std::move(done));
  });
}

absl::StatusOr<int64_t> LocalCluster::Count(const std::string& collection) {
  CountRequest request;
  request.collection = collection;
  auto reply = Await<CountReply>([&](Done<CountReply> done) {
    coordinator_->Count(request, {}, std::move(done));
  });
  if (!reply.ok()) {
    return reply.status();
  }
  return reply->count;
}

absl::StatusOr<std::vector<Point>> LocalCluster::Scan(ScanRequest request) {
  std::unique_ptr<PointStream> stream =
      coordinator_->Scan(std::move(request), {});
  std::vector<Point> points;
  for (;;) {
    auto page = Await<ScanPage>(
        [&](Done<ScanPage> done) { stream->Next(std::move(done)); });
    if (!page.ok()) {
      return page.status();
    }
    for (Point& p : page->points) {
      points.push_back(std::move(p));
    }
    if (page->end) {
      return points;
    }
  }
}

}  // namespace coterie
