// What SGD moves over gRPC, counted there, against what its formulas say.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/training.h"
#include "coordinator/coordinator.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "tests/served_shard.h"
#include "tests/sgd_following.h"
#include "training/sgd_testing.h"

namespace coterie {
namespace {

constexpr int32_t kShards = 2;
constexpr char kUuid[] = "01234567-89ab-4def-8123-456789abcdef";

class SgdWire : public testing::Test {
 protected:
  SgdWire() : data_(MakeData(400, 60, 4, 5)) {
    std::vector<std::shared_ptr<ShardClient>> clients;
    for (int32_t i = 0; i < kShards; ++i) {
      ShardOptions options;
      options.shard_id = i;
      options.shards_total = kShards;
      options.cluster_uuid = kUuid;
      options.path = absl::StrCat(testing::TempDir(), "/wire-", i);
      std::filesystem::remove_all(options.path);
      options.threads = 1;
      served_.push_back(std::make_unique<ServedShard>(options));
      clients.push_back(served_.back()->OverGrpc());
    }
    auto coordinator = Coordinator::Create(std::move(clients), {});
    EXPECT_TRUE(coordinator.ok()) << coordinator.status();
    coordinator_ = *std::move(coordinator);
    Load();
  }
  ~SgdWire() override { coordinator_.reset(); }

  void Load() {
    CollectionSpec spec;
    spec.name = "c";
    spec.dimension = 60;
    spec.metric = Metric::kSquaredL2;
    ASSERT_TRUE(Await<CollectionSpec>([&](Done<CollectionSpec> done) {
                  coordinator_->CreateCollection(spec, {}, std::move(done));
                }).ok());
    WriteBatch batch;
    batch.collection = "c";
    for (size_t i = 0; i < data_.labels.size(); ++i) {
      const float* row = data_.values.data() + i * 60;
      batch.upserts.push_back(
          {data_.ids[i], {row, row + 60}, {{"y", data_.labels[i]}}});
    }
    ASSERT_TRUE(Await<WriteReply>([&](Done<WriteReply> done) {
                  coordinator_->Upsert(batch, {}, std::move(done));
                }).ok());
  }

  Followed Train(SgdMethod method) {
    SgdOptions options = TestOptions(method, Logistic(60, 1e-2), 4);
    options.float64 = false;
    return Follow(coordinator_->jobs().Train(RequestOf(options), {}).get());
  }

  const SgdSimulationData data_;
  std::vector<std::unique_ptr<ServedShard>> served_;
  std::unique_ptr<Coordinator> coordinator_;
};

struct Moved {
  int64_t packed_down = 0;
  int64_t packed_up = 0;
  int64_t sent = 0;
  int64_t received = 0;
  int64_t messages = 0;
};

Moved Sum(const std::vector<SgdReport>& reports) {
  Moved moved;
  for (const SgdReport& report : reports) {
    moved.packed_down += report.progress.bytes_down;
    moved.packed_up += report.progress.bytes_up;
    moved.sent += report.cost.bytes_sent;
    moved.received += report.cost.bytes_received;
    moved.messages += report.cost.messages;
  }
  return moved;
}

TEST_F(SgdWire, BytesAtTheRpcLayerAreThoseOfTheFormula) {
  const Followed whole = Train(SgdMethod::kGradientDescent);
  const Followed blocks = Train(SgdMethod::kIsega);
  ASSERT_TRUE(whole.model.ok()) << whole.model.status();
  ASSERT_TRUE(blocks.model.ok()) << blocks.model.status();
  const Moved all = Sum(whole.reports);
  const Moved some = Sum(blocks.reports);
  // 30 updates of 2 shards, 4 workers each: 60 float32 a worker whole, a
  // quarter of them in blocks; at most 10 bytes a contribution and 48 a partial
  // beside.
  constexpr int64_t kContributions = 30 * 2 * 4;
  EXPECT_GE(all.packed_up, kContributions * 60 * 4);
  EXPECT_LE(all.packed_up, kContributions * (60 * 4 + 10) + 30 * 2 * 48 + 200);
  EXPECT_GE(some.packed_up, kContributions * 15 * 4);
  EXPECT_LE(some.packed_up, kContributions * (15 * 4 + 10) + 30 * 2 * 48 + 200);
  for (const Moved& moved : {all, some}) {
    // Around each packed message: names, numbers, seconds, and 5 bytes of
    // gRPC's framing.
    const int64_t pairs = moved.messages / 2;
    EXPECT_GE(pairs, 60);
    EXPECT_GT(moved.sent - moved.packed_down, 5 * pairs);
    EXPECT_LE(moved.sent - moved.packed_down, 160 * pairs);
    EXPECT_GT(moved.received - moved.packed_up, 5 * pairs);
    EXPECT_LE(moved.received - moved.packed_up, 64 * pairs);
  }
  // What is around them does not depend on what they hold, but for lengths.
  EXPECT_NEAR(static_cast<double>(all.sent - all.packed_down),
              static_cast<double>(some.sent - some.packed_down),
              static_cast<double>(2 * all.messages));
  // And the service counts the same as the reports, together with what else
  // went over the links.
  int64_t served = 0;
  for (const auto& shard : served_) {
    served += shard->counters->totals().bytes_received;
  }
  EXPECT_GE(served, all.sent + some.sent);
  int64_t bytes_whole = 0;
  for (const SgdShardAccount& shard : blocks.model->last.shards) {
    bytes_whole += shard.bytes_whole;
  }
  EXPECT_EQ(bytes_whole, kContributions * 60 * 4);
}

}  // namespace
}  // namespace coterie
