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
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "api/placement.h"
#include "api/training.h"
#include "coordinator/coordinator.h"
#include "gmock/gmock.h"
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

using ::testing::AllOf;
using ::testing::HasSubstr;

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
    PassingShard::StepJob(std::move(step), std::move(call),
                          Weighed(std::move(done)));
  }
  std::unique_ptr<StepStream> OpenSteps() override {
    return std::make_unique<WeighedSteps>(this, inner()->OpenSteps());
  }

  std::vector<Answer> Take() {
    MutexLock lock(&mu_);
    return std::exchange(answers_, {});
  }

 private:
  class WeighedSteps final : public StepStream {
   public:
    WeighedSteps(WeighedShard* shard, std::unique_ptr<StepStream> stream)
        : shard_(shard), stream_(std::move(stream)) {}
    void Step(JobStep step, CallContext call, Done<JobAnswer> done) override {
      stream_->Step(std::move(step), std::move(call),
                    shard_->Weighed(std::move(done)));
    }

   private:
    WeighedShard* const shard_;
    const std::unique_ptr<StepStream> stream_;
  };

  Done<JobAnswer> Weighed(Done<JobAnswer> done) {
    return [this, done = std::move(done)](absl::StatusOr<JobAnswer> a) mutable {
      if (a.ok()) {
        MutexLock lock(&mu_);
        answers_.push_back({static_cast<int64_t>(a->partial.size()),
                            a->link.bytes_received,
                            static_cast<uint8_t>(a->partial[1])});
      }
      done(std::move(a));
    };
  }

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
      served_.push_back(std::make_unique<ServedShard>(
          options, [this](absl::string_view method, absl::StatusCode, double) {
            MutexLock lock(&mu_);
            ++calls_[std::string(method)];
          }));
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

  // RPCs that have ended at the shards.
  int64_t calls(const std::string& method) {
    MutexLock lock(&mu_);
    return calls_[method];
  }

  const SgdSimulationData data_;
  Mutex mu_;
  std::map<std::string, int64_t> calls_ ABSL_GUARDED_BY(mu_);
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

// --- A model in two parts ----------------------------------------------------

constexpr int64_t kCutRows = 48;
constexpr int64_t kHidden = 6;
constexpr int64_t kCutUpdates = 100;

class SgdCutWire : public SgdWire {
 protected:
  // Rows whose slots the first shard has, in a collection of their own.
  SgdCutWire() : rows_(MakeData(kCutRows, 9, 1, TestSeed())) {
    const std::vector<int32_t> owner = EvenPlacement(kDefaultSlots, kShards);
    CollectionSpec spec;
    spec.name = "m";
    spec.dimension = 9;
    spec.metric = Metric::kSquaredL2;
    EXPECT_TRUE(Await<CollectionSpec>([&](Done<CollectionSpec> done) {
                  coordinator_->CreateCollection(spec, {}, std::move(done));
                }).ok());
    WriteBatch batch;
    batch.collection = "m";
    PointId id = 0;
    for (size_t i = 0; i < rows_.labels.size(); ++i) {
      while (owner[static_cast<size_t>(SlotOf(id, kDefaultSlots))] != 0) ++id;
      rows_.ids[i] = id++;
      rows_.labels[i] = static_cast<double>(i * i / 3 % 3);
      const float* row = rows_.values.data() + i * 9;
      batch.upserts.push_back(
          {rows_.ids[i], {row, row + 9}, {{"y", rows_.labels[i]}}});
    }
    EXPECT_TRUE(Await<WriteReply>([&](Done<WriteReply> done) {
                  coordinator_->Upsert(batch, {}, std::move(done));
                }).ok());
  }

  static SgdRequest Request() {
    SgdModel model;
    model.kind = SgdModelKind::kMlp;
    model.dimension = 9;
    model.hidden = kHidden;
    model.classes = 3;
    SgdOptions options = TestOptions(SgdMethod::kGradientDescent, model, 1);
    options.schedule = SgdSchedule::kConstant;
    options.step = 0.4;
    options.max_updates = kCutUpdates;
    options.micro_batches = 4;
    SgdRequest request = RequestOf(options);
    request.collection = "m";
    return request;
  }

  SgdSimulationData rows_;
};

TEST_F(SgdCutWire, TheCutIsCrossedByRowsTimesHiddenTimesFourOverOneStream) {
  const SgdRequest request = Request();
  const Followed run = Follow(coordinator_->jobs().Train(request, {}).get());
  ASSERT_TRUE(run.model.ok()) << run.model.status();
  SgdOptions one = request.options;
  one.micro_batches = 0;
  EXPECT_EQ(run.model->parameters,
            Trained(rows_, one, 1, std::vector<int32_t>(kCutRows, 0)));
  constexpr int64_t kValues = kCutUpdates * kCutRows * kHidden * 4;
  EXPECT_EQ(run.model->last.shards[0].bytes_forward, kValues);
  EXPECT_EQ(run.model->last.shards[1].bytes_backward, kValues);
  int64_t received = 0;
  for (int32_t s = 0; s < kShards; ++s) {
    int64_t wire = 0, packed = 0, answers = 0;
    for (const WeighedShard::Answer& answer :
         shards_[static_cast<size_t>(s)]->Take()) {
      EXPECT_EQ(answer.wire, OnTheWire(answer.packed, s, 1));
      wire += answer.wire;
      packed += answer.packed;
      ++answers;
    }
    EXPECT_EQ(run.model->last.shards[static_cast<size_t>(s)].bytes_up, packed);
    // Beside the values: a label a row, what frames an answer, and the part
    // when it is brought together after 64 updates and at the end.
    const int64_t part = s == 0 ? kHidden * 10 * 8 : 3 * 7 * 8;
    EXPECT_GE(wire, kValues + 2 * part);
    EXPECT_LE(wire,
              kValues + 2 * part + kCutUpdates * kCutRows + 100 * answers);
    received += wire;
  }
  EXPECT_EQ(run.model->bytes_received, received);
}

TEST_F(SgdCutWire, AShardThatDiesIsNamedWithTheUpdate) {
  coordinator_.reset();
  CoordinatorOptions options;
  options.jobs.step_timeout = absl::Seconds(2);
  auto coordinator =
      Coordinator::Create({shards_.begin(), shards_.end()}, options);
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  coordinator_ = *std::move(coordinator);
  SgdRequest request = Request();
  request.options.max_updates = 1'000'000;
  bool dead = false;
  const Followed run = Follow(coordinator_->jobs().Train(request, {}).get(),
                              [&](const SgdReport& report) {
                                if (report.progress.update < 5 || dead) return;
                                dead = true;
                                served_[1].reset();
                              });
  const absl::Status status = run.model.status();
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status))
      << status;
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("shard 1"), HasSubstr("update "), HasSubstr("step ")));
  // Of the first shard: one stream carried all of its steps.
  EXPECT_LE(calls("ShardService/SgdSteps"), 3);
  EXPECT_EQ(calls("ShardService/SgdStep"), 0);
}

}  // namespace
}  // namespace coterie
