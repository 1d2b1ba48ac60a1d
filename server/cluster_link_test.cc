// The coordinator's hold on its shards, over fakes whose addresses the test
// gives out.

#include "server/cluster_link.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "coordinator/fake_cluster.h"
#include "coordinator/fake_shard_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

// Who answers where. Thread-safe.
class Network {
 public:
  void Put(const std::string& address, std::shared_ptr<ShardClient> shard) {
    MutexLock lock(&mu_);
    shards_[address] = std::move(shard);
  }
  void Remove(const std::string& address) {
    MutexLock lock(&mu_);
    shards_.erase(address);
  }
  std::vector<std::string> addresses() {
    MutexLock lock(&mu_);
    std::vector<std::string> addresses;
    for (const auto& entry : shards_) {
      addresses.push_back(entry.first);
    }
    return addresses;
  }
  // A client of a shard, which says with each call whose store it means.
  std::shared_ptr<ShardClient> Client(int32_t shard_id,
                                      const std::string& address,
                                      const std::string& store_id) {
    MutexLock lock(&mu_);
    clients_.insert(absl::StrCat(shard_id, " at ", address, " on ", store_id));
    return shards_[address];
  }
  bool Called(const std::string& client) {
    MutexLock lock(&mu_);
    return clients_.count(client) > 0;
  }

 private:
  Mutex mu_;
  std::set<std::string> clients_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::shared_ptr<ShardClient>> shards_
      ABSL_GUARDED_BY(mu_);
};

// The network's addresses at each moment, as a name would give them.
class NetworkAddresses final : public ShardAddresses {
 public:
  NetworkAddresses(Network* network, bool complete)
      : network_(network), complete_(complete) {}
  bool complete_list() const override { return complete_; }
  absl::StatusOr<std::vector<std::string>> Resolve(absl::Duration) override {
    return network_->addresses();
  }

 private:
  Network* const network_;
  const bool complete_;
};

class ClusterLinkTest : public testing::Test {
 protected:
  ~ClusterLinkTest() override {
    if (backend_ != nullptr) {
      backend_->Stop();
      runner_.join();
      backend_->Close();
    }
    for (const auto& fake : fakes_) {
      fake->Stop();
    }
  }

  std::shared_ptr<FakeShardClient> Fake(int32_t id, int32_t total,
                                        const std::string& uuid = "u",
                                        const std::string& store = "") {
    FakeShardClient::Options options;
    options.cluster_uuid = uuid;
    options.store_id = store;
    fakes_.push_back(std::make_shared<FakeShardClient>(id, total, options));
    return fakes_.back();
  }

  void Run(bool complete, bool serve_partial = false) {
    ClusterLinkOptions options;
    options.interval = absl::Milliseconds(2);
    options.timeout = absl::Milliseconds(500);
    options.serve_partial = serve_partial;
    backend_ = MakeClusterLink(
        options, std::make_unique<NetworkAddresses>(&network_, complete),
        [this](int32_t id, const std::string& address, const std::string&,
               const std::string& store) {
          return network_.Client(id, address, store);
        },
        &slot_, &health_);
    runner_ = std::thread([this] { EXPECT_TRUE(backend_->Run().ok()); });
  }

  // Waits until health says so, for this reason if not.
  void Until(bool serving, const std::string& reason = "") {
    while (health_.serving() != serving ||
           health_.reason().find(reason) == std::string::npos) {
      std::this_thread::yield();
    }
  }

  Network network_;
  CoordinatorSlot slot_;
  Health health_;
  std::unique_ptr<Backend> backend_;
  std::thread runner_;
  std::vector<std::shared_ptr<FakeShardClient>> fakes_;
};

TEST_F(ClusterLinkTest, ServesWhenTheLastShardAppearsInAnyOrder) {
  network_.Put("z:1", Fake(1, 3));
  Run(/*complete=*/false);
  Until(false, "shard 0 is at none");
  EXPECT_EQ(slot_.Current().status().code(), absl::StatusCode::kUnavailable);
  network_.Put("b:1", Fake(2, 3));
  network_.Put("c:1", Fake(0, 3));
  Until(true);
  EXPECT_TRUE(slot_.Current().ok());
  EXPECT_EQ(slot_.cluster_uuid(), "u");
  EXPECT_EQ(health_.Check("shard/2"), true);
}

TEST_F(ClusterLinkTest, ContradictionsEmptyTheSlotAtOnceAndHealByThemselves) {
  auto right = Fake(1, 2);
  network_.Put("a:1", Fake(0, 2));
  network_.Put("b:1", right);
  Run(/*complete=*/false);
  Until(true);
  network_.Put("c:1", Fake(1, 2));
  Until(false, "both b:1 and c:1 claim to be shard 1");
  EXPECT_EQ(slot_.Current().status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(slot_.Current().status().message()),
              HasSubstr("b:1 and c:1"));
  network_.Remove("c:1");
  Until(true);
  network_.Put("c:1", Fake(0, 2, "other"));
  Until(false, "other");
}

TEST_F(ClusterLinkTest, AListOfAnotherLengthIsRefused) {
  network_.Put("a:1", Fake(0, 3));
  network_.Put("b:1", Fake(1, 3));
  Run(/*complete=*/true);
  Until(false, "cluster of 3 shards, but --shards lists 2");
}

TEST_F(ClusterLinkTest, ASilentShardTurnsHealthButNotTheCoordinator) {
  auto second = Fake(1, 2);
  network_.Put("a:1", Fake(0, 2));
  network_.Put("b:1", second);
  Run(/*complete=*/true);
  Until(true);
  const auto coordinator = slot_.Current();
  ASSERT_TRUE(coordinator.ok());
  second->Fail("Describe", absl::UnavailableError("connection refused"));
  Until(false, "b:1 does not answer");
  EXPECT_EQ(health_.Check("shard/0"), true);
  EXPECT_EQ(health_.Check("shard/1"), false);
  ASSERT_TRUE(slot_.Current().ok());
  EXPECT_EQ(*slot_.Current(), *coordinator);
  second->Fail("Describe", absl::OkStatus());
  Until(true);
}

TEST_F(ClusterLinkTest, OneLostReplyChangesNothing) {
  auto second = Fake(1, 2);
  network_.Put("a:1", Fake(0, 2));
  network_.Put("b:1", second);
  Run(/*complete=*/true);
  Until(true);
  std::set<bool> seen;
  Mutex mu;
  const int64_t watch = health_.Watch("", [&](std::optional<bool> serving) {
    MutexLock lock(&mu);
    seen.insert(serving.value_or(false));
  });
  for (int i = 0; i < 20; ++i) {
    second->FailOnce("Describe", absl::UnavailableError("lost"));
    const int64_t calls = second->calls("Describe");
    while (second->calls("Describe") < calls + 3) {
      std::this_thread::yield();
    }
  }
  health_.Unwatch(watch);
  MutexLock lock(&mu);
  EXPECT_EQ(seen, std::set<bool>{true});
}

TEST_F(ClusterLinkTest, ServePartialStaysHealthyWhileOneAnswers) {
  auto first = Fake(0, 2);
  auto second = Fake(1, 2);
  network_.Put("a:1", first);
  network_.Put("b:1", second);
  Run(/*complete=*/true, /*serve_partial=*/true);
  Until(true);
  second->Fail("Describe", absl::UnavailableError("down"));
  while (health_.Check("shard/1") != false) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(health_.serving());
  first->Fail("Describe", absl::UnavailableError("down"));
  Until(false, "a:1 does not answer");
}

TEST_F(ClusterLinkTest, ServePartialBeginsWithAShardNeverSeen) {
  auto first = Fake(0, 2);
  network_.Put("a:1", first);
  Run(/*complete=*/false, /*serve_partial=*/true);
  Until(true);
  EXPECT_EQ(health_.Check("shard/0"), true);
  EXPECT_EQ(health_.Check("shard/1"), false);
  const std::shared_ptr<Coordinator> coordinator = *slot_.Current();
  network_.Put("b:1", Fake(1, 2));
  while (health_.Check("shard/1") != true) {
    std::this_thread::yield();
  }
  EXPECT_EQ(*slot_.Current(), coordinator);
}

TEST_F(ClusterLinkTest, AnEmptyStoreInAShardsPlaceCountsAsSilent) {
  auto first = Fake(0, 2, "u", "a");
  auto second = Fake(1, 2, "u", "b");
  network_.Put("a:1", first);
  network_.Put("b:1", second);
  Run(/*complete=*/false);
  Until(true);
  const std::shared_ptr<Coordinator> coordinator = *slot_.Current();
  CollectionSpec spec;
  spec.name = "c";
  spec.dimension = 1;
  ASSERT_TRUE(Wait<CollectionSpec>([&](Done<CollectionSpec> done) {
                coordinator->CreateCollection(spec, {}, std::move(done));
              }).ok());
  auto empty = Fake(1, 2, "u", "new");
  network_.Remove("b:1");
  network_.Put("c:1", empty);
  Until(false, "c:1 is refused");
  EXPECT_THAT(health_.reason(), HasSubstr("--accept_stores=1=new"));
  EXPECT_EQ(*slot_.Current(), coordinator);
  EXPECT_EQ(empty->calls("PutCatalogue"), 0);
  // It is asked for the store that it is not, and says so to callers.
  EXPECT_TRUE(network_.Called("1 at c:1 on b"));
  // The old one is welcome again.
  network_.Remove("c:1");
  network_.Put("b:1", second);
  Until(true);
  EXPECT_EQ(*slot_.Current(), coordinator);
  // One that another coordinator has taken in is looked at afresh.
  Catalogue taken_in = second->catalogue();
  ++taken_in.version;
  taken_in.stores = {"a", "new"};
  empty->SetCatalogue(taken_in);
  first->SetCatalogue(taken_in);
  network_.Remove("b:1");
  network_.Put("c:1", empty);
  while (!slot_.Current().ok() || *slot_.Current() == coordinator) {
    std::this_thread::yield();
  }
  Until(true);
}

TEST_F(ClusterLinkTest, AnEmptyStoreJoinsWhereNothingWasLost) {
  network_.Put("a:1", Fake(0, 1, "u", "a"));
  Run(/*complete=*/false);
  Until(true);
  const std::shared_ptr<Coordinator> coordinator = *slot_.Current();
  network_.Remove("a:1");
  network_.Put("b:1", Fake(0, 1, "u", "new"));
  while (!slot_.Current().ok() || *slot_.Current() == coordinator) {
    std::this_thread::yield();
  }
  Until(true);
}

TEST_F(ClusterLinkTest, AShardIsFollowedToItsNewAddress) {
  auto old_second = Fake(1, 2);
  network_.Put("a:1", Fake(0, 2));
  network_.Put("b:1", old_second);
  Run(/*complete=*/false);
  Until(true);
  const std::shared_ptr<Coordinator> coordinator = *slot_.Current();
  auto new_second = Fake(1, 2);
  new_second->SetCatalogue(old_second->catalogue());
  network_.Remove("b:1");
  network_.Put("c:1", new_second);
  // Each search asks every shard: the new one sees it once it is the target.
  while (new_second->calls("ReadCatalogue") +
             new_second->calls("CollectionStats") ==
         0) {
    CollectionSpec spec;
    spec.name = absl::StrCat("c", old_second->calls("PutCatalogue"), "-",
                             new_second->calls("Describe"));
    spec.dimension = 1;
    Wait<CollectionSpec>([&](Done<CollectionSpec> done) {
      coordinator->CreateCollection(spec, {}, std::move(done));
    }).IgnoreError();
  }
  EXPECT_EQ(*slot_.Current(), coordinator);
}

TEST_F(ClusterLinkTest, AnotherClusterAtTheSameAddressIsRefused) {
  network_.Put("a:1", Fake(0, 1, "u"));
  Run(/*complete=*/true);
  Until(true);
  EXPECT_EQ(slot_.cluster_uuid(), "u");
  // Clients are kept by address, so the stranger comes at another.
  network_.Put("b:1", Fake(0, 1, "v"));
  network_.Remove("a:1");
  Until(false, "belongs to cluster v, expected is u");
  EXPECT_EQ(slot_.Current().status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace coterie
