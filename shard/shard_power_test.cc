// Power that is cut at any moment, with everything lost that was not synced;
// and disks that are full.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/faulty_disk.h"
#include "shard/numbered_writes.h"
#include "shard/shard.h"
#include "shard/shard_testing.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

// Writes that wait for their answer at the same time.
constexpr int64_t kWindow = 16;

// Sends numbered writes and remembers which were acknowledged.
class Writer {
 public:
  Writer(Shard* shard, int64_t first)
      : shard_(shard), next_(first), acknowledged_(first) {}

  // Sends until `count` are acknowledged, or one fails.
  void Run(int64_t count) {
    MutexLock lock(&mu_);
    const int64_t goal = acknowledged_ + count;
    while (acknowledged_ < goal && failure_.ok()) {
      if (unanswered_ >= kWindow) {
        changed_.Wait(&mu_);
        continue;
      }
      SendOne();
    }
  }

  // Sends `count` more at once.
  void Send(int64_t count) {
    MutexLock lock(&mu_);
    for (; count > 0; --count) SendOne();
  }

  void AwaitAnswers() {
    MutexLock lock(&mu_);
    while (unanswered_ > 0) changed_.Wait(&mu_);
  }

  int64_t sent() const {
    MutexLock lock(&mu_);
    return next_;
  }
  int64_t acknowledged() const {
    MutexLock lock(&mu_);
    return acknowledged_;
  }
  absl::Status failure() const {
    MutexLock lock(&mu_);
    return failure_;
  }

 private:
  void SendOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const int64_t n = next_++;
    ++unanswered_;
    mu_.Unlock();  // the answer may come on this thread
    shard_->Write(NumberedWrite(n), {},
                  [this](const absl::StatusOr<WriteReply>& reply) {
                    MutexLock lock(&mu_);
                    --unanswered_;
                    if (reply.ok()) {
                      ++acknowledged_;
                    } else if (failure_.ok()) {
                      failure_ = reply.status();
                    }
                    changed_.NotifyAll();
                  });
    mu_.Lock();
  }

  Shard* const shard_;
  mutable Mutex mu_;
  CondVar changed_;
  int64_t next_ ABSL_GUARDED_BY(mu_);
  int64_t acknowledged_ ABSL_GUARDED_BY(mu_);  // all before it
  int64_t unanswered_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
};

// What is wrong with the store in `path` after writes 0..acknowledged-1 were
// acknowledged and 0..sent-1 sent; empty if nothing. `stored` is how many it
// holds.
std::string Fault(const std::string& path, int64_t acknowledged, int64_t sent,
                  int64_t* stored) {
  const auto shard = Shard::Open(LoneShard(path));
  if (!shard.ok()) return shard.status().ToString();
  Answer<ShardDescription> description;
  (*shard)->Describe({}, description.done());
  *stored = description.Wait()->sequence;
  if (*stored < acknowledged || *stored > sent) {
    return absl::StrCat(acknowledged, " of ", sent, " acknowledged, ", *stored,
                        " stored");
  }
  const auto state = StoredIn(shard->get());
  if (!state.ok()) return state.status().ToString();
  if (*state != StateAfter(*stored)) return "other points than were sent";
  return Disagreement(shard->get(), *state);
}

// Cuts the power of one store again and again while it writes; the first thing
// that is wrong, empty if nothing. Adds the bytes that were lost.
std::string CutPowerOften(bool sync, int cuts, Random& random, int64_t* lost) {
  const TempFolder folder;
  const std::string path = folder.path() + "/store";
  int64_t stored = 0;
  for (int cut = 0; cut < cuts; ++cut) {
    FaultyDisk disk;
    ShardOptions options = LoneShard(path);
    options.open_store = disk.Opener(sync);
    int64_t acknowledged = 0;
    int64_t sent = 0;
    {
      const auto shard = OpenNumbered(options);
      Writer writer(shard.get(), stored);
      writer.Run(static_cast<int64_t>(random() % 200));
      writer.Send(static_cast<int64_t>(random() % kWindow));
      disk.CutPower();
      writer.AwaitAnswers();
      acknowledged = writer.acknowledged();
      sent = writer.sent();
    }
    *lost += disk.DropUnsynced(
        random() % 2 == 0 ? 0 : static_cast<int64_t>(random() % 600));
    const std::string fault = Fault(path, acknowledged, sent, &stored);
    if (!fault.empty()) return absl::StrCat("after cut ", cut, ": ", fault);
  }
  return "";
}

TEST(PowerLoss, LosesNothingAcknowledged) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  int64_t lost = 0;
  EXPECT_EQ(CutPowerOften(/*sync=*/true, 20, random, &lost), "");
}

// The test above can fail: without syncs it does.
TEST(PowerLoss, LosesAcknowledgedWritesThatAreNotSynced) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  int64_t lost = 0;
  EXPECT_NE(CutPowerOften(/*sync=*/false, 20, random, &lost), "");
  EXPECT_GT(lost, 0);
}

TEST(FullDisk, RefusesWritesAndReadsOn) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  const TempFolder folder;
  const std::string path = folder.path() + "/store";
  int64_t stored = 0;
  for (int round = 0; round < 5; ++round) {
    FaultyDisk disk;
    ShardOptions options = LoneShard(path);
    options.open_store = disk.Opener();
    int64_t acknowledged = 0;
    int64_t sent = 0;
    {
      const auto shard = OpenNumbered(options);
      disk.SetRoom(20000 + static_cast<int64_t>(random() % 20000));
      Writer writer(shard.get(), stored);
      writer.Run(int64_t{1} << 40);
      writer.AwaitAnswers();
      acknowledged = writer.acknowledged();
      sent = writer.sent();
      const absl::Status failure = writer.failure();
      EXPECT_TRUE(absl::IsUnavailable(failure)) << failure;
      EXPECT_TRUE(absl::StrContains(failure.message(), "o space left"))
          << failure;
      EXPECT_TRUE(absl::StrContains(failure.message(), path)) << failure;

      // Reads show exactly what was acknowledged.
      const auto state = StoredIn(shard.get());
      ASSERT_TRUE(state.ok()) << state.status();
      EXPECT_EQ(*state, StateAfter(acknowledged));
      EXPECT_EQ(Disagreement(shard.get(), *state), "");
    }
    ASSERT_GT(acknowledged, stored) << "there was room for some";
    // After a restart with room, all of it is there and writing goes on.
    ASSERT_EQ(Fault(path, acknowledged, sent, &stored), "");
  }
}

// Whatever RocksDB has to say about a disk without room, line after line.
TEST(FullDisk, EndsNoProcessWhileFilesAreMadeOfWhatWasWritten) {
  const TempFolder folder;
  const std::string path = folder.path() + "/store";
  FaultyDisk disk;
  const std::string value(size_t{1} << 16, 'v');
  int64_t stored = 0;
  {
    auto store = disk.Opener()(path);
    ASSERT_TRUE(store.ok()) << store.status();
    const auto put = [&](int64_t key) {
      StoreBatch batch;
      batch.Put(Family::kRows, absl::StrCat(key), value);
      return (*store)->Write(batch);
    };
    // More than is kept in memory, so that tables are written as well.
    disk.SetRoom(int64_t{48} << 20);
    absl::Status status = put(stored);
    while (status.ok()) status = put(++stored);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(put(-1).ok());
    const auto read = (*store)->Read(Family::kRows, {"0"}, nullptr);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->front(), value);
  }
  disk.SetRoom(-1);
  auto store = disk.Opener()(path);
  ASSERT_TRUE(store.ok()) << store.status();
  for (int64_t key = 0; key < stored; ++key) {
    const auto read =
        (*store)->Read(Family::kRows, {absl::StrCat(key)}, nullptr);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->front(), value) << key;
  }
}

TEST(FullDisk, RefusesToOpenNamingTheStore) {
  const TempFolder folder;
  const std::string path = folder.path() + "/store";
  int64_t written = 0;
  {
    const auto shard = OpenNumbered(LoneShard(path));
    Writer writer(shard.get(), 0);
    writer.Run(10);
    writer.AwaitAnswers();
    written = writer.acknowledged();
  }
  FaultyDisk disk;
  disk.SetRoom(0);
  ShardOptions options = LoneShard(path);
  options.open_store = disk.Opener();
  const absl::Status status = Shard::Open(options).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), path)) << status;
  int64_t stored = 0;
  EXPECT_EQ(Fault(path, written, written, &stored), "") << "nothing was harmed";
}

}  // namespace
}  // namespace coterie
