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

TEST(DataDir, KeepsUuidAndShardsAcrossReopening) {
  const std::string path = Folder("reopen");
  std::string uuid;
  {
    auto dir = DataDir::Open(path, 0, 4);
    ASSERT_TRUE(dir.ok()) << dir.status();
    EXPECT_EQ(dir->shards(), 4);
    EXPECT_EQ(dir->cluster_uuid().size(), 36u);
    uuid = dir->cluster_uuid();
  }
  auto again = DataDir::Open(path, 0, 9);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->shards(), 4);
  EXPECT_EQ(again->cluster_uuid(), uuid);
}

TEST(DataDir, TwoDirectoriesHaveDifferentUuids) {
  auto a = DataDir::Open(Folder("a"), 1, 1);
  auto b = DataDir::Open(Folder("b"), 1, 1);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(a->cluster_uuid(), b->cluster_uuid());
}

TEST(DataDir, SecondOpenerIsRefusedWhileTheFirstLives) {
  const std::string path = Folder("locked");
  auto first = DataDir::Open(path, 2, 2);
  ASSERT_TRUE(first.ok());
  auto second = DataDir::Open(path, 2, 2);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(path));
}

TEST(DataDir, AnotherNumberOfShardsIsRefusedNamingBoth) {
  const std::string path = Folder("count");
  ASSERT_TRUE(DataDir::Open(path, 4, 4).ok());
  auto dir = DataDir::Open(path, 3, 4);
  EXPECT_EQ(dir.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr("4 shards"));
  EXPECT_THAT(std::string(dir.status().message()),
              HasSubstr("--local_shards=3"));
}

TEST(DataDir, MissingClusterFileBesideShardsIsNotAFreshStart) {
  const std::string path = Folder("wiped");
  { ASSERT_TRUE(DataDir::Open(path, 4, 4).ok()); }
  std::filesystem::create_directories(path + "/shard-0000");
  std::filesystem::remove(path + "/CLUSTER");
  auto dir = DataDir::Open(path, 4, 4);
  EXPECT_EQ(dir.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr("CLUSTER"));
}

TEST(DataDir, DamagedClusterFileIsNamed) {
  for (const std::string text :
       {"", "coterie cluster 2\nuuid x\nshards 4\n",
        "coterie cluster 1\nuuid short\nshards 4\n",
        "coterie cluster 1\nuuid 01234567-89ab-4def-8123-456789abcdef\n"
        "shards -1\n"}) {
    const std::string path = Folder("damaged");
    std::filesystem::create_directories(path);
    std::ofstream(path + "/CLUSTER") << text;
    auto dir = DataDir::Open(path, 0, 4);
    EXPECT_EQ(dir.status().code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(dir.status().message()), HasSubstr("CLUSTER"));
  }
}

TEST(DataDir, UnwritablePlaceIsAnErrorNotACrash) {
  auto dir = DataDir::Open("/proc/coterie", 1, 1);
  EXPECT_FALSE(dir.ok());
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr("/proc/coterie"));
}

}  // namespace
}  // namespace coterie
