#include "server/shard_addresses.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ShardAddresses, AListIsItselfInAnyOrder) {
  auto addresses = MakeShardAddresses({"b:2", "a:1", "[::1]:3"});
  EXPECT_TRUE(addresses->complete_list());
  const auto found = addresses->Resolve(absl::ZeroDuration());
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(*found, ElementsAre("[::1]:3", "a:1", "b:2"));
}

TEST(ShardAddresses, ANameIsLookedUpEachTime) {
  auto addresses = MakeShardAddresses({"dns:///localhost:7700"});
  EXPECT_FALSE(addresses->complete_list());
  for (int i = 0; i < 2; ++i) {
    const auto found = addresses->Resolve(absl::Seconds(20));
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_THAT(*found,
                Contains(::testing::AnyOf("127.0.0.1:7700", "[::1]:7700")));
  }
}

TEST(ShardAddresses, ANameThatIsNotThereIsWaitedForByName) {
  auto addresses = MakeShardAddresses({"dns:///nowhere.invalid:7700"});
  const auto found = addresses->Resolve(absl::Seconds(20));
  EXPECT_EQ(found.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(found.status().message()),
              HasSubstr("nowhere.invalid"));
}

}  // namespace
}  // namespace coterie
