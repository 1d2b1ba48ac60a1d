#include "coordinator/job_feed.h"

#include <algorithm>
#include <variant>

namespace coterie {
namespace {

// A report or a result, whatever its kind.
template <typename Of>
JobEvent EventOf(const Of& of, bool end) {
  return std::visit(
      [end](const auto& what) {
        return JobEvent{what, end};
      },
      of);
}

}  // namespace

class JobFeed::Stream final : public JobStream {
 public:
  explicit Stream(std::shared_ptr<JobFeed> feed) : feed_(std::move(feed)) {}
  void Next(Done<JobEvent> done) override {
    feed_->Read(position_, std::move(done));
  }

 private:
  const std::shared_ptr<JobFeed> feed_;
  const std::shared_ptr<int64_t> position_ = std::make_shared<int64_t>(0);
};

std::optional<absl::StatusOr<JobEvent>> JobFeed::EventAt(int64_t* position) {
  *position = std::max(*position, first_);
  const int64_t end = first_ + static_cast<int64_t>(reports_.size());
  if (*position < end) {
    const auto at = static_cast<size_t>((*position)++ - first_);
    return absl::StatusOr<JobEvent>(EventOf(reports_[at], false));
  }
  if (!result_.has_value()) return std::nullopt;
  if (!result_->ok()) return absl::StatusOr<JobEvent>(result_->status());
  return absl::StatusOr<JobEvent>(EventOf(**result_, true));
}

void JobFeed::Read(const std::shared_ptr<int64_t>& position,
                   Done<JobEvent> done) {
  std::optional<absl::StatusOr<JobEvent>> event;
  {
    MutexLock lock(&mu_);
    event = EventAt(position.get());
    if (!event.has_value()) {
      waiters_.push_back({position, std::move(done)});
      return;
    }
  }
  done(*std::move(event));
}

void JobFeed::Wake() {
  std::vector<std::pair<Done<JobEvent>, absl::StatusOr<JobEvent>>> ready;
  {
    MutexLock lock(&mu_);
    std::vector<Waiter> waiting;
    for (Waiter& waiter : waiters_) {
      auto event = EventAt(waiter.position.get());
      if (event.has_value()) {
        ready.emplace_back(std::move(waiter.done), *std::move(event));
      } else {
        // It has read what is new already, and asked again.
        waiting.push_back(std::move(waiter));
      }
    }
    waiters_ = std::move(waiting);
  }
  for (auto& [done, event] : ready) done(std::move(event));
}

void JobFeed::Push(JobReport report) {
  {
    MutexLock lock(&mu_);
    reports_.push_back(std::move(report));
    if (reports_.size() > kKept) {
      reports_.pop_front();
      ++first_;
    }
  }
  Wake();
}

void JobFeed::End(absl::StatusOr<JobResult> result) {
  std::vector<absl::AnyInvocable<void()>> told;
  {
    MutexLock lock(&mu_);
    result_ = std::move(result);
    told.swap(told_);
  }
  Wake();
  for (auto& tell : told) tell();
}

std::unique_ptr<JobStream> JobFeed::Follow() {
  return std::make_unique<Stream>(shared_from_this());
}

void JobFeed::OnEnd(absl::AnyInvocable<void()> told) {
  {
    MutexLock lock(&mu_);
    if (!result_.has_value()) {
      told_.push_back(std::move(told));
      return;
    }
  }
  told();
}

namespace {

class OneEvent final : public JobStream {
 public:
  explicit OneEvent(absl::StatusOr<JobEvent> event)
      : event_(std::move(event)) {}
  void Next(Done<JobEvent> done) override { done(std::move(event_)); }

 private:
  absl::StatusOr<JobEvent> event_;
};

}  // namespace

std::unique_ptr<JobStream> SayOnce(absl::StatusOr<JobEvent> event) {
  return std::make_unique<OneEvent>(std::move(event));
}

}  // namespace coterie
