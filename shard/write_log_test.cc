#include "shard/write_log.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "api/status_details.h"
#include "gtest/gtest.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

// Records what it is given; can be held, and can fail.
class FakeSink final : public LogSink {
 public:
  absl::Status ApplyGroup(
      absl::Span<const LogEntry* const> entries,
      absl::Span<absl::StatusOr<WriteReply>> replies) override {
    started.Open();
    if (gate != nullptr) gate->Wait();
    if (!failure.ok()) return failure;
    groups.push_back(static_cast<int64_t>(entries.size()));
    for (size_t i = 0; i < entries.size(); ++i) {
      applied.push_back(entries[i]->collection);
      if (entries[i]->collection == 404) {
        replies[i] = absl::NotFoundError("dropped");
      } else {
        replies[i] = WriteReply{1, 0, static_cast<int64_t>(applied.size())};
      }
    }
    return absl::OkStatus();
  }

  Gate started;
  Gate* gate = nullptr;  // waits here
  absl::Status failure;
  std::vector<int64_t> groups;    // sizes
  std::vector<uint32_t> applied;  // collections, in order
};

LogEntry Entry(uint32_t collection, size_t floats = 1) {
  Point point;
  point.vector.resize(floats);
  LogEntry entry;
  entry.collection = collection;
  entry.slots.push_back({0, {std::move(point)}, {}});
  return entry;
}

TEST(LocalWriteLog, AppliesInOrderAndCommitsWaitingEntriesTogether) {
  FakeSink sink;
  Gate gate;
  sink.gate = &gate;
  std::vector<Answer<WriteReply>> answers(20);
  LocalWriteLog log({}, &sink);
  log.Append(Entry(0), {}, answers[0].done());
  sink.started.Wait();
  for (uint32_t i = 1; i < 20; ++i) {
    log.Append(Entry(i), {}, answers[i].done());
    EXPECT_FALSE(answers[i].ready());
  }
  gate.Open();
  for (uint32_t i = 0; i < 20; ++i) {
    const auto reply = answers[i].Wait();
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->sequence, i + 1);
  }
  log.Stop();
  EXPECT_EQ(sink.groups, (std::vector<int64_t>{1, 19})) << "one sync for 19";
  for (uint32_t i = 0; i < 20; ++i) EXPECT_EQ(sink.applied[i], i);
}

TEST(LocalWriteLog, GroupsAreBoundedByBytes) {
  FakeSink sink;
  Gate gate;
  sink.gate = &gate;
  std::vector<Answer<WriteReply>> answers(9);
  const int64_t each = Entry(1, 100).Bytes();
  LocalWriteLog log({.queue_bytes = 1 << 20, .group_bytes = 4 * each}, &sink);
  log.Append(Entry(0, 100), {}, answers[0].done());
  sink.started.Wait();
  for (size_t i = 1; i < 9; ++i) {
    log.Append(Entry(1, 100), {}, answers[i].done());
  }
  gate.Open();
  log.Stop();
  EXPECT_EQ(sink.groups, (std::vector<int64_t>{1, 4, 4}));
}

TEST(LocalWriteLog, RefusesAtOnceWhenTooManyBytesWait) {
  FakeSink sink;
  Gate gate;
  sink.gate = &gate;
  const int64_t each = Entry(1).Bytes();
  LocalWriteLog log({.queue_bytes = 2 * each}, &sink);
  Answer<WriteReply> first, second, refused, task;
  log.Append(Entry(1), {}, first.done());
  sink.started.Wait();
  log.Append(Entry(1), {}, second.done());
  log.Append(Entry(1), {}, refused.done());
  ASSERT_TRUE(refused.ready()) << "the committer is held: it cannot answer";
  const absl::Status status = refused.Wait().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(RetryAfterOf(status).has_value());
  log.Run(each, {}, [done = task.done()](const absl::Status& admitted) mutable {
    done(admitted);
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsResourceExhausted(task.Wait().status()));
  gate.Open();
  EXPECT_TRUE(first.Wait().ok());
  EXPECT_TRUE(second.Wait().ok());
  log.Stop();
  EXPECT_EQ(sink.applied.size(), 2u);
}

TEST(LocalWriteLog, TakesAnEntryLargerThanTheBoundIfNothingWaits) {
  FakeSink sink;
  LocalWriteLog log({.queue_bytes = 10}, &sink);
  for (int i = 0; i < 3; ++i) {
    Answer<WriteReply> answer;
    log.Append(Entry(1, 100), {}, answer.done());
    EXPECT_TRUE(answer.Wait().ok());
  }
}

TEST(LocalWriteLog, DropsEntriesWhoseCallEndedBeforeTheirTurn) {
  FakeSink sink;
  Gate gate;
  sink.gate = &gate;
  LocalWriteLog log({}, &sink);
  const auto cancel = std::make_shared<CancelToken>();
  Answer<WriteReply> first, cancelled, last;
  log.Append(Entry(1), {}, first.done());
  sink.started.Wait();
  log.Append(Entry(2), {absl::InfiniteFuture(), cancel}, cancelled.done());
  log.Append(Entry(3), {}, last.done());
  cancel->Cancel();
  gate.Open();
  EXPECT_TRUE(absl::IsCancelled(cancelled.Wait().status()));
  EXPECT_TRUE(last.Wait().ok());
  log.Stop();
  EXPECT_EQ(sink.applied, (std::vector<uint32_t>{1, 3}));
}

TEST(LocalWriteLog, OneRefusedEntryDoesNotStopItsGroup) {
  FakeSink sink;
  Gate gate;
  sink.gate = &gate;
  LocalWriteLog log({}, &sink);
  Answer<WriteReply> first, dropped, last;
  log.Append(Entry(1), {}, first.done());
  sink.started.Wait();
  log.Append(Entry(404), {}, dropped.done());
  log.Append(Entry(2), {}, last.done());
  gate.Open();
  EXPECT_TRUE(absl::IsNotFound(dropped.Wait().status()));
  EXPECT_TRUE(last.Wait().ok());
}

TEST(LocalWriteLog, AFailedGroupMakesItReadOnly) {
  FakeSink sink;
  Gate gate;
  sink.gate = &gate;
  sink.failure = absl::UnavailableError("disk on fire");
  LocalWriteLog log({}, &sink);
  Answer<WriteReply> first, waiting, later;
  Answer<int64_t> task;
  log.Append(Entry(1), {}, first.done());
  sink.started.Wait();
  log.Append(Entry(2), {}, waiting.done());
  log.Run(1, {}, [done = task.done()](const absl::Status& admitted) mutable {
    done(admitted);
    return absl::OkStatus();
  });
  EXPECT_TRUE(log.health().ok());
  gate.Open();
  for (Answer<WriteReply>* answer : {&first, &waiting}) {
    const absl::Status status = answer->Wait().status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "disk on fire")) << status;
  }
  EXPECT_TRUE(absl::IsUnavailable(task.Wait().status()));
  log.Append(Entry(3), {}, later.done());
  EXPECT_TRUE(absl::IsUnavailable(later.Wait().status()));
  EXPECT_TRUE(absl::StrContains(log.health().message(), "disk on fire"));
  log.Stop();
  EXPECT_TRUE(sink.applied.empty());
}

TEST(LocalWriteLog, AFailedTaskMakesItReadOnly) {
  FakeSink sink;
  LocalWriteLog log({}, &sink);
  log.Run(1, {}, [](const absl::Status&) {
    return absl::UnavailableError("no disk");
  });
  log.Stop();
  EXPECT_TRUE(absl::StrContains(log.health().message(), "no disk"));
}

TEST(LocalWriteLog, TasksRunInOrderWithEntriesAndAlone) {
  FakeSink sink;
  Gate gate;
  sink.gate = &gate;
  LocalWriteLog log({}, &sink);
  std::vector<Answer<WriteReply>> answers(3);
  size_t applied_before_task = 99;
  log.Append(Entry(1), {}, answers[0].done());
  sink.started.Wait();
  log.Append(Entry(2), {}, answers[1].done());
  log.Run(1, {}, [&](const absl::Status& admitted) {
    if (admitted.ok()) applied_before_task = sink.applied.size();
    return absl::OkStatus();
  });
  log.Append(Entry(3), {}, answers[2].done());
  gate.Open();
  log.Stop();
  EXPECT_EQ(applied_before_task, 2u);
  EXPECT_EQ(sink.groups, (std::vector<int64_t>{1, 1, 1}));
}

TEST(LocalWriteLog, StopAppliesWhatWasAppendedAndRefusesTheRest) {
  FakeSink sink;
  LocalWriteLog log({}, &sink);
  std::vector<Answer<WriteReply>> answers(100);
  for (auto& answer : answers) log.Append(Entry(1), {}, answer.done());
  log.Stop();
  for (auto& answer : answers) {
    ASSERT_TRUE(answer.ready());
    EXPECT_TRUE(answer.Wait().ok());
  }
  Answer<WriteReply> after;
  log.Append(Entry(1), {}, after.done());
  EXPECT_TRUE(absl::IsUnavailable(after.Wait().status()));
  log.Stop();
}

// For ThreadSanitizer.
TEST(LocalWriteLog, AnswersEveryoneOfManyThreads) {
  FakeSink sink;
  LocalWriteLog log({.queue_bytes = 2000}, &sink);
  std::atomic<int64_t> ok{0};
  std::atomic<int64_t> refused{0};
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        Answer<WriteReply> answer;
        log.Append(Entry(1), {}, answer.done());
        const auto reply = answer.Wait();
        ++(reply.ok() ? ok : refused);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  log.Stop();
  EXPECT_EQ(ok.load() + refused.load(), 2000);
  EXPECT_EQ(static_cast<int64_t>(sink.applied.size()), ok.load());
  EXPECT_GT(ok.load(), 0);
}

}  // namespace
}  // namespace coterie
