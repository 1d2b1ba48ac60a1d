#include "coordinator/catalogue_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/status_details.h"
#include "coordinator/fake_cluster.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

CollectionSpec MakeSpec(const std::string& name, std::vector<int32_t> owner) {
  CollectionSpec spec;
  spec.name = name;
  spec.dimension = 1;
  spec.slots = static_cast<int32_t>(owner.size());
  spec.owner = std::move(owner);
  return spec;
}

class CatalogueStoreTest : public ::testing::Test {
 protected:
  CatalogueStoreTest() {
    auto set = std::make_shared<std::vector<std::shared_ptr<ShardClient>>>();
    for (int32_t i = 0; i < 3; ++i) {
      fakes_.push_back(std::make_shared<FakeShardClient>(i, 3));
      set->push_back(fakes_.back());
    }
    store_ = std::make_shared<CatalogueStore>(std::move(set));
  }

  absl::StatusOr<CatalogueSnapshot> Add(const std::string& name) {
    return Wait<CatalogueSnapshot>([&](Done<CatalogueSnapshot> done) {
      store_->Change(
          [name](Catalogue* catalogue) -> absl::Status {
            if (catalogue->Find(name) != nullptr) {
              return absl::AlreadyExistsError(name);
            }
            catalogue->collections.push_back(MakeSpec(name, {0, 1, 2}));
            return absl::OkStatus();
          },
          {}, std::move(done));
    });
  }

  absl::StatusOr<CollectionRoute> Route(const std::string& name,
                                        absl::Status verdict = {}) {
    return Wait<CollectionRoute>([&](Done<CollectionRoute> done) {
      store_->Route(
          name, [verdict](const CollectionSpec&) { return verdict; }, {},
          std::move(done));
    });
  }

  FakeShardClient& shard(int i) { return *fakes_[static_cast<size_t>(i)]; }

  std::vector<std::shared_ptr<FakeShardClient>> fakes_;
  std::shared_ptr<CatalogueStore> store_;
};

TEST_F(CatalogueStoreTest, AChangeReachesEveryShardAndTheCache) {
  auto changed = Add("a");
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ((*changed)->version, 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(shard(i).catalogue().version, 1);
    EXPECT_NE(shard(i).catalogue().Find("a"), nullptr);
  }
  EXPECT_NE(store_->Current()->Find("a"), nullptr);
}

TEST_F(CatalogueStoreTest, ALostRaceIsRunAgainOnWhatTheWinnerLeft) {
  bool raced = false;
  shard(0).BeforePut([&] {
    if (raced) {
      return;
    }
    raced = true;
    Catalogue other;
    other.version = 1;
    other.collections = {MakeSpec("other", {0})};
    shard(0).SetCatalogue(other);
  });
  auto changed = Add("p");
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ((*changed)->version, 2);
  EXPECT_NE((*changed)->Find("other"), nullptr);
  EXPECT_NE((*changed)->Find("p"), nullptr);
}

TEST_F(CatalogueStoreTest, LosingForEverEndsInAborted) {
  shard(0).BeforePut([&] {
    Catalogue other = shard(0).catalogue();
    ++other.version;
    shard(0).SetCatalogue(other);
  });
  EXPECT_EQ(Add("a").status().code(), absl::StatusCode::kAborted);
}

TEST_F(CatalogueStoreTest, AHalfFinishedChangeIsFinishedByRepeatingIt) {
  shard(2).FailOnce("PutCatalogue", absl::UnavailableError("gone"));
  const absl::Status half = Add("a").status();
  EXPECT_EQ(half.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ShardOf(half), 2);
  EXPECT_EQ(shard(2).catalogue().version, 0);

  EXPECT_EQ(Add("a").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(shard(2).catalogue().version, 1);
}

TEST_F(CatalogueStoreTest, ANewerCopyIsLeftAlone) {
  Catalogue newer;
  newer.version = 9;
  shard(1).SetCatalogue(newer);
  ASSERT_TRUE(Add("a").ok());
  EXPECT_EQ(shard(1).catalogue().version, 9);
  EXPECT_EQ(shard(2).catalogue().version, 1);
}

TEST_F(CatalogueStoreTest, ACopyChangedMeanwhileIsLookedAtAgain) {
  ASSERT_TRUE(Add("a").ok());
  int puts = 0;
  shard(1).BeforePut([&] {
    if (++puts == 1) {
      Catalogue between = shard(1).catalogue();
      between.version = 2;  // another coordinator's copy of the same change
      shard(1).SetCatalogue(between);
    }
  });
  ASSERT_TRUE(Add("b").ok());
  EXPECT_EQ(shard(1).catalogue().version, 2);
  EXPECT_EQ(puts, 1);
}

TEST_F(CatalogueStoreTest, ShardZeroDownIsNamed) {
  shard(0).Fail("ReadCatalogue", absl::UnavailableError("gone"));
  EXPECT_EQ(ShardOf(Add("a").status()), 0);
  EXPECT_EQ(ShardOf(Route("a").status()), 0);
}

TEST_F(CatalogueStoreTest, ARouteFromTheCacheAsksNobody) {
  ASSERT_TRUE(Add("a").ok());
  const int64_t before = shard(0).calls("ReadCatalogue");
  auto route = Route("a");
  ASSERT_TRUE(route.ok());
  EXPECT_EQ(route->spec->name, "a");
  EXPECT_EQ(shard(0).calls("ReadCatalogue"), before);
}

TEST_F(CatalogueStoreTest, AnUnknownNameIsLookedUpOnceThenNotFound) {
  const int64_t before = shard(0).calls("ReadCatalogue");
  const absl::Status status = Route("nope").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"nope\""));
  EXPECT_THAT(std::string(status.message()), HasSubstr("CreateCollection"));
  EXPECT_EQ(shard(0).calls("ReadCatalogue"), before + 1);
}

TEST_F(CatalogueStoreTest, AFailedCheckIsRepeatedOnAFreshCatalogue) {
  ASSERT_TRUE(Add("a").ok());
  Catalogue remade = shard(0).catalogue();
  ++remade.version;
  remade.collections[0].dimension = 8;
  shard(0).SetCatalogue(remade);
  auto route = Wait<CollectionRoute>([&](Done<CollectionRoute> done) {
    store_->Route(
        "a",
        [](const CollectionSpec& spec) -> absl::Status {
          return spec.dimension == 8 ? absl::OkStatus()
                                     : absl::InvalidArgumentError("dimension");
        },
        {}, std::move(done));
  });
  ASSERT_TRUE(route.ok()) << route.status();
  EXPECT_EQ(route->spec->dimension, 8);
  EXPECT_EQ(Route("a", absl::InvalidArgumentError("bad")).status(),
            absl::InvalidArgumentError("bad"));
}

TEST_F(CatalogueStoreTest, TheCachedVersionNeverFalls) {
  ASSERT_TRUE(Add("a").ok());
  ASSERT_TRUE(Add("b").ok());
  shard(0).SetCatalogue(Catalogue());
  auto read = Wait<CatalogueSnapshot>([&](Done<CatalogueSnapshot> done) {
    store_->Refresh({}, std::move(done));
  });
  ASSERT_TRUE(read.ok());
  EXPECT_EQ((*read)->version, 0);
  EXPECT_EQ(store_->Current()->version, 2);
}

TEST_F(CatalogueStoreTest, OwnersOutsideTheClusterAreRefused) {
  for (const CollectionSpec& bad :
       {MakeSpec("a", {0, 3}), MakeSpec("a", {-1})}) {
    Catalogue catalogue;
    catalogue.version = 5;
    catalogue.collections = {bad};
    shard(0).SetCatalogue(catalogue);
    const absl::Status status = Route("a").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("slot"));
  }
  Catalogue gap;
  gap.collections = {MakeSpec("a", {0, 1})};
  gap.collections[0].slots = 3;
  EXPECT_EQ(CheckOwners(gap, 3).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CatalogueStoreTest, BackgroundRepairOfOneShardRunsOnceAtATime) {
  ASSERT_TRUE(Add("a").ok());
  shard(2).SetCatalogue(Catalogue());
  shard(2).Hold("ReadCatalogue");
  store_->RepairInBackground(2);
  store_->RepairInBackground(2);
  EXPECT_EQ(shard(2).held(), 1);
  shard(2).Release();
  EXPECT_EQ(shard(2).catalogue().version, 1);
  shard(2).SetCatalogue(Catalogue());
  store_->RepairInBackground(2);
  EXPECT_EQ(shard(2).catalogue().version, 1);
}

TEST_F(CatalogueStoreTest, ACancelledChangeStops) {
  auto token = std::make_shared<CancelToken>();
  token->Cancel();
  CallContext call;
  call.cancel = token;
  auto changed = Wait<CatalogueSnapshot>([&](Done<CatalogueSnapshot> done) {
    store_->Change([](Catalogue*) { return absl::OkStatus(); }, call,
                   std::move(done));
  });
  EXPECT_EQ(changed.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(shard(0).calls("PutCatalogue"), 0);
}

TEST_F(CatalogueStoreTest, ManyChangesAtOnceAllHappen) {
  constexpr int kThreads = 4;
  constexpr int kEach = 5;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < kEach; ++i) {
        auto changed =
            Wait<CatalogueSnapshot>([&](Done<CatalogueSnapshot> done) {
              store_->Change(
                  [name = absl::StrCat("c", t, "-", i)](Catalogue* catalogue) {
                    catalogue->collections.push_back(MakeSpec(name, {0}));
                    return absl::OkStatus();
                  },
                  {}, std::move(done));
            });
        EXPECT_TRUE(changed.ok()) << changed.status();
      }
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
  EXPECT_EQ(store_->Current()->version, kThreads * kEach);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(shard(i).catalogue().version, kThreads * kEach);
    EXPECT_EQ(shard(i).catalogue().collections.size(),
              static_cast<size_t>(kThreads * kEach));
  }
}

}  // namespace
}  // namespace coterie
