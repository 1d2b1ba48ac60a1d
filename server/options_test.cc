#include "server/options.h"

#include <string>
#include <vector>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

// Options as if coteried had been started with these arguments.
absl::StatusOr<ServerOptions> Parse(std::vector<std::string> args) {
  absl::FlagSaver restore;
  std::vector<char*> argv;
  std::string program = "coteried";
  argv.push_back(program.data());
  for (std::string& a : args) {
    argv.push_back(a.data());
  }
  absl::ParseCommandLine(static_cast<int>(argv.size()), argv.data());
  return OptionsFromFlags();
}

TEST(Options, FlagsDefaultToTheStructsDefaults) {
  const auto parsed = Parse({});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const ServerOptions plain;
  EXPECT_EQ(parsed->listen, plain.listen);
  EXPECT_EQ(parsed->data_dir, plain.data_dir);
  EXPECT_EQ(parsed->local_shards, plain.local_shards);
  EXPECT_EQ(parsed->threads_per_shard, plain.threads_per_shard);
  EXPECT_EQ(parsed->queue_capacity, plain.queue_capacity);
  EXPECT_EQ(parsed->write_queue_bytes, plain.write_queue_bytes);
  EXPECT_EQ(parsed->drain, plain.drain);
  EXPECT_EQ(parsed->reflection, plain.reflection);
  EXPECT_EQ(parsed->limits.Table(), plain.limits.Table());
}

TEST(Options, BadValuesAreRefusedNamingTheFlag) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--local_shards=-1", "local_shards"},
      {"--local_shards=65", "local_shards"},
      {"--threads_per_shard=257", "threads_per_shard"},
      {"--queue_capacity=0", "queue_capacity"},
      {"--write_queue_bytes=1", "write_queue_bytes"},
      {"--drain=-1s", "drain"},
      {"--data_dir=", "data_dir"},
      // 6 GiB, 2 GiB: would wrap in gRPC's 32 bits.
      {"--max_message_bytes=6442450944", "message_bytes"},
      {"--max_message_bytes=2147483648", "message_bytes"},
      {"--max_message_bytes=0", "message_bytes"},
      {"--max_message_bytes=-1", "message_bytes"},
      {"--max_dimension=16385", "dimension"},
      {"--max_k=0", "k"},
  };
  for (const auto& [arg, name] : cases) {
    const auto parsed = Parse({arg});
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument)
        << arg;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(name));
  }
}

TEST(Options, LimitFlagsReachTheTable) {
  const auto parsed = Parse({"--max_k=7", "--max_message_bytes=2147483647"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->limits.k, 7);
  EXPECT_EQ(parsed->limits.message_bytes, 2147483647);
}

}  // namespace
}  // namespace coterie
