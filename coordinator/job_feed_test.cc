#include "coordinator/job_feed.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace coterie {
namespace {

// The next event, if it comes within half a minute. Spins, so as to ask for the
// one after it at once.
absl::StatusOr<JobEvent> NextOf(JobStream* stream) {
  struct Told {
    std::atomic<bool> yes{false};
    absl::StatusOr<JobEvent> event;
  };
  const auto told = std::make_shared<Told>();
  stream->Next([told](absl::StatusOr<JobEvent> next) {
    told->event = std::move(next);
    told->yes = true;
  });
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (!told->yes) {
    if (absl::Now() > deadline) return absl::DeadlineExceededError("nothing");
  }
  return std::move(told->event);
}

// A reader that is as fast as the job asks for the next report between the
// moment one is there and the moment those that wait are told.
TEST(JobFeed, AFastReaderHearsOfTheEnd) {
  for (int round = 0; round < 20; ++round) {
    const auto feed = std::make_shared<JobFeed>();
    const std::unique_ptr<JobStream> stream = feed->Follow();
    std::thread job([feed] {
      for (int i = 0; i < 5000; ++i) feed->Push(SgdReport());
      feed->End(absl::CancelledError("it ends"));
    });
    absl::StatusOr<JobEvent> event = NextOf(stream.get());
    while (event.ok()) event = NextOf(stream.get());
    EXPECT_TRUE(absl::IsCancelled(event.status())) << event.status();
    job.join();
    if (HasFailure()) return;
  }
}

TEST(JobFeed, WhoComesLateHearsWhatIsKeptAndTheEnd) {
  const auto feed = std::make_shared<JobFeed>();
  for (size_t i = 0; i < JobFeed::kKept + 7; ++i) {
    SgdReport report;
    report.progress.update = static_cast<int64_t>(i);
    feed->Push(report);
  }
  feed->End(absl::CancelledError("it ends"));
  const std::unique_ptr<JobStream> stream = feed->Follow();
  for (size_t i = 0; i < JobFeed::kKept; ++i) {
    const auto event = NextOf(stream.get());
    ASSERT_TRUE(event.ok()) << event.status();
    EXPECT_EQ(std::get<SgdReport>(event->what).progress.update,
              static_cast<int64_t>(i + 7));
  }
  EXPECT_TRUE(absl::IsCancelled(NextOf(stream.get()).status()));
}

}  // namespace
}  // namespace coterie
