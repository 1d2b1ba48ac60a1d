#include "api/wire_mutator.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "api/quoted.h"
#include "api/test_seed.h"
#include "api/v1/shard.pb.h"

namespace coterie {
namespace {

std::string Sample() {
  v1::EchoResponse inner;
  inner.set_payload("text");
  inner.set_shard_id(-1);
  v1::EchoResponse outer;
  outer.set_payload(inner.SerializeAsString());
  outer.set_incarnation(5);
  return outer.SerializeAsString();
}

TEST(MutateMessage, KeepsTheFraming) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::set<std::string> seen;
  for (int round = 0; round < 2000; ++round) {
    std::string message = Sample();
    ASSERT_TRUE(MutateMessage(random, &message));
    // Of bytes and integers only: whatever is well formed parses.
    ASSERT_TRUE(v1::EchoResponse().ParseFromString(message)) << Quoted(message);
    seen.insert(message);
  }
  EXPECT_GT(seen.size(), 200U);
}

TEST(MutateMessage, ReachesNestedFields) {
  std::mt19937_64 random(1);
  bool reached = false;
  for (int round = 0; round < 2000 && !reached; ++round) {
    std::string message = Sample();
    MutateMessage(random, &message);
    v1::EchoResponse outer;
    v1::EchoResponse inner;
    reached = outer.ParseFromString(message) &&
              inner.ParseFromString(outer.payload()) &&
              inner.payload() == "text" && inner.shard_id() > 1;
  }
  EXPECT_TRUE(reached);
}

TEST(MutateMessage, DependsOnTheSeedAlone) {
  std::mt19937_64 a(7);
  std::mt19937_64 b(7);
  for (int round = 0; round < 100; ++round) {
    std::string x = Sample();
    std::string y = Sample();
    MutateMessage(a, &x);
    MutateMessage(b, &y);
    ASSERT_EQ(x, y);
  }
}

TEST(MutateMessage, LeavesWhatIsNoMessage) {
  std::mt19937_64 random(1);
  for (std::string bytes :
       {std::string(), std::string("\x0A\x05x", 3), std::string("\x0B", 1),
        std::string("\xFF\xFF", 2), std::string("\0\0", 2)}) {
    const std::string before = bytes;
    EXPECT_FALSE(MutateMessage(random, &bytes)) << Quoted(before);
    EXPECT_EQ(bytes, before);
  }
}

}  // namespace
}  // namespace coterie
