// kill -9 at any moment: what was acknowledged is there, whole writes only, in
// order.
//
// This program starts itself as a writer, kills it, and looks at what is left.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/numbered_writes.h"
#include "shard/shard.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

constexpr int kKills = 6;
// Writes that wait for their answer at the same time.
constexpr int64_t kWindow = 16;

// Does writes n, n + 1, ... until it is killed; reports each that was
// acknowledged as 8 bytes on standard output.
void RunWriter(const std::string& path, int64_t n) {
  const auto shard = OpenNumbered(LoneShard(path));
  std::atomic<int64_t> unanswered{0};
  for (;; ++n) {
    // Woken by the answer that makes room.
    for (int64_t n_waiting = unanswered.load(); n_waiting >= kWindow;
         n_waiting = unanswered.load()) {
      unanswered.wait(n_waiting);
    }
    ++unanswered;
    shard->Write(NumberedWrite(n), {},
                 [&unanswered, n](const absl::StatusOr<WriteReply>& reply) {
                   if (!reply.ok()) std::abort();
                   if (write(STDOUT_FILENO, &n, sizeof(n)) != sizeof(n)) {
                     std::abort();
                   }
                   --unanswered;
                   unanswered.notify_one();
                 });
  }
}

// Starts the writer at write `first`, kills it after `acknowledged` answers;
// the last write it acknowledged.
int64_t WriteUntilKilled(const std::string& path, int64_t first,
                         int64_t acknowledged) {
  int answers[2];
  EXPECT_EQ(pipe(answers), 0);
  const std::string from = absl::StrCat(first);
  const pid_t writer = fork();
  if (writer == 0) {
    dup2(answers[1], STDOUT_FILENO);
    close(answers[0]);
    execl("/proc/self/exe", "writer", path.c_str(), from.c_str(), nullptr);
    _exit(127);
  }
  close(answers[1]);
  int64_t last = first - 1;
  int64_t n = 0;
  // The pipe keeps what was reported before the end, so all of it counts.
  for (int64_t count = 0; read(answers[0], &n, sizeof(n)) == sizeof(n);) {
    EXPECT_EQ(n, last + 1) << "acknowledged in order";
    last = n;
    if (++count == acknowledged) kill(writer, SIGKILL);
  }
  close(answers[0]);
  int status = 0;
  waitpid(writer, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  return last;
}

TEST(ShardDurability, AKillLosesNothingAcknowledgedAndTearsNoWrite) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  const TempFolder folder;
  const std::string path = folder.path() + "/store";
  OpenNumbered(LoneShard(path));
  NumberedState model;
  int64_t done = 0;  // writes 0 .. done - 1 are in the model
  for (int kill = 0; kill < kKills; ++kill) {
    const int64_t last =
        WriteUntilKilled(path, done, 1 + static_cast<int64_t>(random() % 300));
    ASSERT_FALSE(HasFailure());
    const auto shard = OpenNumbered(LoneShard(path));
    Answer<ShardDescription> description;
    shard->Describe({}, description.done());
    // The shard's sequence says how many writes there are.
    const int64_t stored_writes = description.Wait()->sequence;
    ASSERT_GT(stored_writes, last) << "an acknowledged write is lost";
    ASSERT_LE(stored_writes, last + 1 + 2 * kWindow);
    for (; done < stored_writes; ++done) ApplyNumbered(done, &model);
    const auto stored = StoredIn(shard.get());
    ASSERT_TRUE(stored.ok()) << stored.status();
    ASSERT_EQ(*stored, model) << "after kill " << kill;
    ASSERT_EQ(Disagreement(shard.get(), *stored), "");
  }
}

}  // namespace
}  // namespace coterie

int main(int argc, char** argv) {
  int64_t first = 0;
  if (argc == 3 && std::string(argv[0]) == "writer" &&
      absl::SimpleAtoi(argv[2], &first)) {
    coterie::RunWriter(argv[1], first);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
