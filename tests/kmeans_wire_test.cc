// What k-means moves over gRPC, counted there: statistics of exactly the
// documented size, and a frame around them.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "coordinator/coordinator.h"
#include "gtest/gtest.h"
#include "sync/mutex.h"
#include "tests/kmeans_jobs_testing.h"
#include "tests/passing_shard.h"
#include "tests/served_shard.h"
#include "training/kmeans_codec.h"
#include "training/kmeans_messages.h"

namespace coterie {
namespace {

constexpr char kUuid[] = "01234567-89ab-4def-8123-456789abcdef";
// Of gRPC, protobuf fields and their lengths, identity and times, at most.
constexpr int64_t kFrame = 64;

// Remembers what each answer to an assignment took, packed and on the wire.
class WeighedShard final : public PassingShard {
 public:
  struct Answer {
    int64_t packed = 0;
    int64_t wire = 0;
  };
  using PassingShard::PassingShard;

  void StepJob(JobStep step, CallContext call, Done<JobAnswer> done) override {
    PassingShard::StepJob(
        std::move(step), std::move(call),
        [this, done = std::move(done)](absl::StatusOr<JobAnswer> a) mutable {
          if (a.ok() && static_cast<KMeansStepKind>(a->partial[1]) ==
                            KMeansStepKind::kAssign) {
            MutexLock lock(&mu_);
            answers_.push_back({static_cast<int64_t>(a->partial.size()),
                                a->link.bytes_received});
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

// Shards that are reached over gRPC.
class Served {
 public:
  explicit Served(int32_t shards) {
    std::vector<std::shared_ptr<ShardClient>> clients;
    for (int32_t i = 0; i < shards; ++i) {
      ShardOptions options;
      options.shard_id = i;
      options.shards_total = shards;
      options.cluster_uuid = kUuid;
      options.path = absl::StrCat(testing::TempDir(), "/kmeans_wire", i);
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
  }
  ~Served() { coordinator_.reset(); }

  void Load(const KMeansData& data) {
    CollectionSpec spec;
    spec.name = "c";
    spec.dimension = static_cast<int32_t>(data.d);
    spec.metric = Metric::kSquaredL2;
    ASSERT_TRUE(Await<CollectionSpec>([&](Done<CollectionSpec> done) {
                  coordinator_->CreateCollection(spec, {}, std::move(done));
                }).ok());
    WriteBatch batch;
    batch.collection = "c";
    for (int64_t i = 0; i < data.n(); ++i) {
      const VectorView row = data.row(i);
      batch.upserts.push_back({data.id(i), {row.begin(), row.end()}, {}});
    }
    ASSERT_TRUE(Await<WriteReply>([&](Done<WriteReply> done) {
                  coordinator_->Upsert(batch, {}, std::move(done));
                }).ok());
  }

  Coordinator& coordinator() { return *coordinator_; }
  std::vector<WeighedShard::Answer> Take() {
    std::vector<WeighedShard::Answer> all;
    for (const auto& shard : shards_) {
      for (const auto& answer : shard->Take()) all.push_back(answer);
    }
    return all;
  }

 private:
  std::vector<std::unique_ptr<ServedShard>> served_;
  std::vector<std::shared_ptr<WeighedShard>> shards_;
  std::unique_ptr<Coordinator> coordinator_;
};

// k (d + 1) b: 26,000 bytes a shard of k = 100, d = 64 and float32, and 416,000
// of 16 shards.
TEST(KMeansWire, BytesAtTheRpcLayerAreThoseOfTheFormula) {
  std::mt19937_64 random(8);
  const KMeansData data = Blobs(800, 64, 50, 2, random);
  for (const int32_t shards : {1, 16}) {
    Served served(shards);
    served.Load(data);
    for (const auto& [form, up] :
         {std::pair(KMeansSumForm::kFloat32, int64_t{26'000}),
          std::pair(KMeansSumForm::kInt64, int64_t{52'000})}) {
      SCOPED_TRACE(absl::StrCat(shards, " shards, ", up));
      KMeansRequest request = RequestFor(data, 100, true);
      request.options.form = form;
      request.options.max_iterations = 2;
      request.options.empty = KMeansEmptyPolicy::kKeep;
      request.replace = true;
      const Followed run =
          Follow(served.coordinator().jobs().Train(request, {}).get());
      ASSERT_TRUE(run.result.ok()) << run.result.status();
      ASSERT_FALSE(run.reports.empty());
      int64_t wire = 0;
      for (const WeighedShard::Answer& answer : served.Take()) {
        EXPECT_EQ(answer.packed, kKMeansPartialHeaderBytes + up);
        EXPECT_GT(answer.wire, answer.packed);
        EXPECT_LE(answer.wire, answer.packed + kFrame);
        wire += answer.wire;
      }
      EXPECT_GE(wire, shards * up * static_cast<int64_t>(run.reports.size()));
      EXPECT_EQ(run.reports[0].statistics_bytes_up, shards * up);
      EXPECT_GE(run.reports[0].cost.bytes_received, shards * up);
      EXPECT_GE(run.reports[0].cost.bytes_sent,
                run.reports[0].statistics_bytes_down);
    }
  }
}

}  // namespace
}  // namespace coterie
