#include "server/data_dir.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

std::string Folder(const std::string& name) {
  const std::string path = testing::TempDir() + "/" + name;
  std::filesystem::remove_all(path);
  return path;
}

DataDirRequest Request(int32_t shards, int32_t default_shards) {
  DataDirRequest request;
  request.shards = shards;
  request.default_shards = default_shards;
  return request;
}

TEST(DataDir, KeepsUuidAndShardsAcrossReopening) {
  const std::string path = Folder("reopen");
  std::string uuid;
  {
    auto dir = DataDir::Open(path, Request(0, 4));
    ASSERT_TRUE(dir.ok()) << dir.status();
    EXPECT_EQ(dir->shards(), 4);
    EXPECT_EQ(dir->cluster_uuid().size(), 36u);
    uuid = dir->cluster_uuid();
  }
  auto again = DataDir::Open(path, Request(0, 9));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->shards(), 4);
  EXPECT_EQ(again->cluster_uuid(), uuid);
}

TEST(DataDir, TwoDirectoriesHaveDifferentUuids) {
  auto a = DataDir::Open(Folder("a"), Request(1, 1));
  auto b = DataDir::Open(Folder("b"), Request(1, 1));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(a->cluster_uuid(), b->cluster_uuid());
}

TEST(DataDir, SecondOpenerIsRefusedWhileTheFirstLives) {
  const std::string path = Folder("locked");
  auto first = DataDir::Open(path, Request(2, 2));
  ASSERT_TRUE(first.ok());
  auto second = DataDir::Open(path, Request(2, 2));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(path));
}

TEST(DataDir, AnotherNumberOfShardsIsRefusedNamingBoth) {
  const std::string path = Folder("count");
  ASSERT_TRUE(DataDir::Open(path, Request(4, 4)).ok());
  auto dir = DataDir::Open(path, Request(3, 4));
  EXPECT_EQ(dir.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr("4 shards"));
  EXPECT_THAT(std::string(dir.status().message()),
              HasSubstr("--local_shards=3"));
}

TEST(DataDir, OneShardOfAClusterKeepsItsIdentity) {
  const std::string path = Folder("shard");
  DataDirRequest request;
  request.shards = 3;
  request.shard_id = 1;
  auto unnamed = DataDir::Open(path, request);
  EXPECT_EQ(unnamed.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(unnamed.status().message()), HasSubstr("--cluster"));
  request.cluster_uuid = "01234567-89ab-4def-8123-456789abcdef";
  ASSERT_TRUE(DataDir::Open(path, request).ok());

  DataDirRequest again;
  again.shards = 3;
  again.shard_id = 1;
  auto stored = DataDir::Open(path, again);
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_EQ(stored->cluster_uuid(), request.cluster_uuid);
}

TEST(DataDir, AnotherShardRoleOrClusterIsRefusedNamingBoth) {
  const std::string path = Folder("foreign");
  DataDirRequest made;
  made.shards = 3;
  made.shard_id = 1;
  made.cluster_uuid = "01234567-89ab-4def-8123-456789abcdef";
  ASSERT_TRUE(DataDir::Open(path, made).ok());
  const auto refused = [&path](const DataDirRequest& request) {
    const auto dir = DataDir::Open(path, request);
    EXPECT_EQ(dir.status().code(), absl::StatusCode::kFailedPrecondition);
    return std::string(dir.status().message());
  };
  DataDirRequest other = made;
  other.shard_id = 2;
  EXPECT_THAT(refused(other), HasSubstr("--shard_id=1"));
  EXPECT_THAT(refused(other), HasSubstr("--shard_id=2"));
  EXPECT_THAT(refused(Request(3, 3)), HasSubstr("--role=all"));
  other = made;
  other.shards = 4;
  EXPECT_THAT(refused(other), HasSubstr("--shards_total=4"));
  other = made;
  other.cluster_uuid = "11234567-89ab-4def-8123-456789abcdef";
  EXPECT_THAT(refused(other), HasSubstr(made.cluster_uuid));
  EXPECT_THAT(refused(other), HasSubstr(other.cluster_uuid));
}

TEST(DataDir, MissingClusterFileBesideShardsIsNotAFreshStart) {
  const std::string path = Folder("wiped");
  { ASSERT_TRUE(DataDir::Open(path, Request(4, 4)).ok()); }
  std::filesystem::create_directories(path + "/shard-0000");
  std::filesystem::remove(path + "/CLUSTER");
  auto dir = DataDir::Open(path, Request(4, 4));
  EXPECT_EQ(dir.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr("CLUSTER"));
}

TEST(DataDir, DamagedClusterFileIsNamed) {
  for (const std::string text :
       {"", "coterie cluster 2\nuuid x\nshards 4\n",
        "coterie cluster 1\nuuid short\nshards 4\n",
        "coterie cluster 1\nuuid 01234567-89ab-4def-8123-456789abcdef\n"
        "shards -1\n",
        "coterie cluster 1\nuuid 01234567-89ab-4def-8123-456789abcdef\n"
        "shards 3\nshard 3\n"}) {
    const std::string path = Folder("damaged");
    std::filesystem::create_directories(path);
    std::ofstream(path + "/CLUSTER") << text;
    auto dir = DataDir::Open(path, Request(0, 4));
    EXPECT_EQ(dir.status().code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(dir.status().message()), HasSubstr("CLUSTER"));
  }
}

TEST(DataDir, UnwritablePlaceIsAnErrorNotACrash) {
  auto dir = DataDir::Open("/proc/coterie", Request(1, 1));
  EXPECT_FALSE(dir.ok());
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr("/proc/coterie"));
}

}  // namespace
}  // namespace coterie
