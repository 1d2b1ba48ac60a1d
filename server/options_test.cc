#include "server/options.h"

#include <map>
#include <string>
#include <vector>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/cluster_uuid.h"

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
  EXPECT_EQ(parsed->role, plain.role);
  EXPECT_EQ(parsed->listen, plain.listen);
  EXPECT_EQ(parsed->http, plain.http);
  EXPECT_EQ(parsed->shard_id, plain.shard_id);
  EXPECT_EQ(parsed->shards_total, plain.shards_total);
  EXPECT_EQ(parsed->cluster_uuid, plain.cluster_uuid);
  EXPECT_EQ(parsed->shards, plain.shards);
  EXPECT_EQ(parsed->serve_partial, plain.serve_partial);
  EXPECT_EQ(parsed->max_inflight_bytes, plain.max_inflight_bytes);
  EXPECT_EQ(parsed->data_dir_wait, plain.data_dir_wait);
  EXPECT_EQ(parsed->drain_delay, plain.drain_delay);
  EXPECT_EQ(parsed->data_dir, plain.data_dir);
  EXPECT_EQ(parsed->local_shards, plain.local_shards);
  EXPECT_EQ(parsed->threads, plain.threads);
  EXPECT_EQ(parsed->queue_capacity, plain.queue_capacity);
  EXPECT_EQ(parsed->write_queue_bytes, plain.write_queue_bytes);
  EXPECT_EQ(parsed->unsealed_bytes, plain.unsealed_bytes);
  EXPECT_EQ(parsed->merge_bytes, plain.merge_bytes);
  EXPECT_EQ(parsed->job_bytes, plain.job_bytes);
  EXPECT_EQ(parsed->job_step, plain.job_step);
  EXPECT_EQ(parsed->index_bytes, plain.index_bytes);
  EXPECT_EQ(parsed->drain, plain.drain);
  EXPECT_EQ(parsed->reflection, plain.reflection);
  EXPECT_EQ(parsed->limits.Table(), plain.limits.Table());
}

TEST(Options, BadValuesAreRefusedNamingTheFlag) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--local_shards=-1", "local_shards"},
      {"--local_shards=65", "local_shards"},
      {"--threads=1025", "threads"},
      {"--queue_capacity=0", "queue_capacity"},
      {"--write_queue_bytes=1", "write_queue_bytes"},
      {"--unsealed_bytes=1", "unsealed_bytes"},
      {"--merge_bytes=-1", "merge_bytes"},
      {"--job_bytes=-1", "job_bytes"},
      {"--job_step=10ms", "job_step"},
      {"--index_bytes=-1", "index_bytes"},
      {"--drain=-1s", "drain"},
      {"--data_dir_wait=-1s", "data_dir_wait"},
      {"--drain_delay=2h", "drain_delay"},
      {"--max_inflight_bytes=1024", "max_inflight_bytes"},
      {"--listen=::1:7600", "--listen"},
      {"--http=localhost", "--http"},
      {"--http=unix:/x", "--http"},
      {"--data_dir=", "data_dir"},
      {"--accept_stores=1", "accept_stores"},
      {"--accept_stores=x=s", "accept_stores"},
      {"--accept_stores=1=s,1=t", "accept_stores"},
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

TEST(Options, AcceptedStoresAreByShard) {
  const auto parsed = Parse({"--accept_stores=1=s,0=t"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->accepted_stores,
            (std::map<int32_t, std::string>{{0, "t"}, {1, "s"}}));
  EXPECT_FALSE(Parse({"--role=shard", "--shard_id=0", "--shards_total=1",
                      "--accept_stores=0=s"})
                   .ok());
}

TEST(Options, RolesTakeTheirFlagsAndRefuseOthers) {
  const auto shard = Parse(
      {"--role=shard", "--shard_id=1", "--shards_total=3", "--cluster=words"});
  ASSERT_TRUE(shard.ok()) << shard.status();
  EXPECT_EQ(shard->role, ServerOptions::Role::kShard);
  EXPECT_EQ(shard->shard_id, 1);
  EXPECT_EQ(shard->shards_total, 3);
  EXPECT_EQ(shard->cluster_uuid, ClusterUuidOf("words"));

  const auto coordinator =
      Parse({"--role=coordinator", "--shards=b:2,[::1]:3,a:1"});
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  EXPECT_THAT(coordinator->shards,
              ::testing::ElementsAre("b:2", "[::1]:3", "a:1"));
  ASSERT_TRUE(
      Parse({"--role=coordinator", "--shards=dns:///shards.ns:7600"}).ok());

  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--role=leader"}, "--role=leader"},
      {{"--role=shard"}, "shards_total"},
      {{"--role=shard", "--shards_total=3"}, "shard_id"},
      {{"--role=shard", "--shards_total=3", "--shard_id=3"}, "shard_id=3"},
      {{"--role=shard", "--shards_total=3", "--shard_id=0", "--local_shards=3"},
       "local_shards"},
      {{"--role=coordinator"}, "--shards"},
      {{"--role=coordinator", "--shards=a:1,a:1"}, "twice"},
      {{"--role=coordinator", "--shards=a:1,"}, "has no port"},
      {{"--role=coordinator", "--shards=a:0"}, "port 0"},
      {{"--role=coordinator", "--shards=a:1", "--shard_id=0"}, "shard_id"},
      {{"--role=coordinator", "--shards=dns:///a:1,b:2"}, "stands alone"},
      {{"--shards=a:1"}, "--shards"},
      {{"--serve_partial"}, "serve_partial"},
      {{"--shard_id=0"}, "shard_id"},
      {{"--shards_total=2"}, "shards_total"},
      {{"--cluster=a", "--cluster_uuid=b"}, "give one"},
      {{"--cluster_uuid=B"}, "cluster_uuid=B"},
  };
  for (const auto& [args, why] : cases) {
    const auto parsed = Parse(args);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument)
        << args.back();
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(why));
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
