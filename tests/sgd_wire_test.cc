// What SGD moves over gRPC, counted there, is what its formulas say.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "api/placement.h"
#include "api/training.h"
#include "coordinator/coordinator.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "sync/mutex.h"
#include "tests/passing_shard.h"
#include "tests/served_shard.h"
#include "tests/sgd_following.h"
#include "training/sgd_messages.h"
#include "training/sgd_testing.h"

namespace coterie {
namespace {

constexpr int32_t kShards = 2;
constexpr int32_t kWorkers = 4;
constexpr int64_t kUpdates = 30;
constexpr char kUuid[] = "01234567-89ab-4def-8123-456789abcdef";

// Remembers what each answer to a step took, packed and on the wire.
class WeighedShard final : public PassingShard {
 public:
  struct Answer {
    int64_t packed = 0;
    int64_t wire = 0;
    uint8_t kind = 0;
  };
  using PassingShard::PassingShard;

  void StepJob(JobStep step, CallContext call, Done<JobAnswer> done) override {
    PassingShard::StepJob(
        std::move(step), std::move(call),
        [this, done = std::move(done)](absl::StatusOr<JobAnswer> a) mutable {
          if (a.ok()) {
            MutexLock lock(&mu_);
            answers_.push_back({static_cast<int64_t>(a->partial.size()),
                                a->link.bytes_received,
                                static_cast<uint8_t>(a->partial[1])});
          }
          done(std::move(a));
        });
  }

  std::vector<Answer> Take() {
    MutexLock lock(&mu_);
    return std::exchange(answers_, {});
  }

 private:
  Mutex mu_;
  std::vector<Answer> answers_ ABSL_GUARDED_BY(mu_);
};

class SgdWire : public testing::Test {
 protected:
  SgdWire() : data_(MakeData(400, 60, kWorkers, TestSeed())) {
    std::vector<std::shared_ptr<ShardClient>> clients;
    for (int32_t i = 0; i < kShards; ++i) {
      ShardOptions options;
      options.shard_id = i;
      options.shards_total = kShards;
      options.cluster_uuid = kUuid;
      options.path = absl::StrCat(
          testing::TempDir(), "/",
          testing::UnitTest::GetInstance()->current_test_info()->name(), i);
      std::filesystem::remove_all(options.path);
      options.threads = 1;
      served_.push_back(std::make_unique<ServedShard>(options));
      shards_.push_back(
          std::make_shared<WeighedShard>(served_.back()->OverGrpc()));
      clients.push_back(shards_.back());
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
    SgdOptions options = TestOptions(method, Logistic(60, 1e-2), kWorkers);
    options.max_updates = kUpdates;
    options.float64 = false;
    return Follow(coordinator_->jobs().Train(RequestOf(options), {}).get());
  }

  // Rows of each worker on a shard: row i is worker i mod kWorkers'.
  std::map<int32_t, int64_t> Rows(int32_t shard) const {
    const std::vector<int32_t> owner = EvenPlacement(kDefaultSlots, kShards);
    std::map<int32_t, int64_t> rows;
    for (size_t i = 0; i < data_.ids.size(); ++i) {
      const int64_t slot = SlotOf(data_.ids[i], kDefaultSlots);
      if (owner[static_cast<size_t>(slot)] == shard) {
        ++rows[static_cast<int32_t>(i) % kWorkers];
      }
    }
    return rows;
  }

  const SgdSimulationData data_;
  std::vector<std::unique_ptr<ServedShard>> served_;
  std::vector<std::shared_ptr<WeighedShard>> shards_;
  std::unique_ptr<Coordinator> coordinator_;
  testing::ScopedTrace trace_{__FILE__, __LINE__,
                              absl::StrCat("SEED=", TestSeed())};
};

// Bytes of a number: seven bits each.
int64_t Varint(int64_t value) {
  int64_t bytes = 1;
  while (value >>= 7) ++bytes;
  return bytes;
}

// An answer to a gradient step, of each worker so many bytes of values.
int64_t Packed(const std::map<int32_t, int64_t>& rows, int64_t update,
               int64_t values) {
  int64_t all = 0;
  int64_t bytes = 0;
  for (const auto& [worker, count] : rows) {
    all += count;
    bytes += Varint(worker) + Varint(count) + values;
  }
  // Marks; step number (the first began the job), round; loss; rows, workers.
  return bytes + 3 + Varint(update + 1) + Varint(update - 1) + 8 + Varint(all) +
         Varint(static_cast<int64_t>(rows.size()));
}

// The same as a message: gRPC's five bytes; shard (0 is left out), incarnation
// and seconds; the answer; seconds.
int64_t OnTheWire(int64_t packed, int32_t shard, int64_t incarnation) {
  const int64_t header =
      (shard == 0 ? 0 : 1 + Varint(shard)) + 1 + Varint(incarnation) + 9;
  return 5 + 2 + header + 1 + Varint(packed) + packed + 9;
}

TEST_F(SgdWire, BytesAtTheRpcLayerAreThoseOfTheFormula) {
  struct Case {
    SgdMethod method;
    int64_t values;  // bytes a worker and update
  };
  // 60 float32; a quarter of them; one with its index.
  for (const Case& c :
       {Case{SgdMethod::kGradientDescent, 60 * 4},
        Case{SgdMethod::kIsega, 15 * 4}, Case{SgdMethod::kEf21, 8}}) {
    SCOPED_TRACE(static_cast<int>(c.method));
    const Followed run = Train(c.method);
    ASSERT_TRUE(run.model.ok()) << run.model.status();
    int64_t received = 0;
    for (const SgdReport& report : run.reports) {
      received += report.cost.bytes_received;
    }
    EXPECT_EQ(received, run.model->bytes_received);
    for (int32_t s = 0; s < kShards; ++s) {
      const std::map<int32_t, int64_t> rows = Rows(s);
      ASSERT_EQ(rows.size(), static_cast<size_t>(kWorkers));
      int64_t packed = 0;
      int64_t update = 0;
      for (const WeighedShard::Answer& answer :
           shards_[static_cast<size_t>(s)]->Take()) {
        EXPECT_EQ(answer.wire, OnTheWire(answer.packed, s, 1));
        packed += answer.packed;
        received -= answer.wire;
        if (answer.kind != static_cast<uint8_t>(SgdStepKind::kGradient)) {
          continue;
        }
        ++update;
        EXPECT_EQ(answer.packed, Packed(rows, update, c.values));
      }
      EXPECT_EQ(update, kUpdates);
      const SgdShardAccount& account =
          run.model->last.shards[static_cast<size_t>(s)];
      EXPECT_EQ(account.bytes_up, packed);
      EXPECT_EQ(account.bytes_whole, kUpdates * kWorkers * 60 * 4);
    }
    // What the reports say was received is what the messages were.
    EXPECT_EQ(received, 0);
  }
}

}  // namespace
}  // namespace coterie
