#include "client/upsert_pipeline.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/status_details.h"
#include "client/errors.h"

namespace coterie {
namespace {

constexpr std::chrono::milliseconds kTick(200);
constexpr absl::Duration kLongestDelay = absl::Minutes(1);

bool WorthRetrying(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
}

}  // namespace

absl::Duration BackoffAfter(const RetryPolicy& policy, int attempt,
                            const absl::Status& error, double random) {
  // 2^20 initial delays exceed any maximum that makes sense.
  const int doublings = std::clamp(attempt - 1, 0, 20);
  const absl::Duration full =
      std::min(policy.initial_backoff * static_cast<double>(1 << doublings),
               policy.max_backoff);
  const absl::Duration own = full * (1 - random / 2);
  const absl::Duration wish =
      RetryAfterOf(error).value_or(absl::ZeroDuration());
  return std::min(std::max(own, wish), kLongestDelay);
}

UpsertPipeline::UpsertPipeline(Send send, OnProgress on_progress, int in_flight,
                               RetryPolicy policy)
    : send_(std::move(send)),
      on_progress_(std::move(on_progress)),
      in_flight_(in_flight),
      policy_(policy) {
  assert(in_flight >= 1);
  workers_.reserve(in_flight);
  for (int i = 0; i < in_flight; ++i) {
    workers_.emplace_back([this] { Work(); });
  }
}

UpsertPipeline::~UpsertPipeline() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    wake_workers_.NotifyAll();
  }
  for (std::thread& worker : workers_) worker.join();
}

absl::Status UpsertPipeline::Add(v1::UpsertRequest batch) {
  absl::Status status = WaitUntilHeldBelow(in_flight_);
  if (!status.ok()) return status;
  MutexLock lock(&mu_);
  ++held_;
  queue_.push_back(std::move(batch));
  // All, as workers between retries wait here too.
  wake_workers_.NotifyAll();
  return absl::OkStatus();
}

absl::Status UpsertPipeline::Finish() { return WaitUntilHeldBelow(1); }

int64_t UpsertPipeline::points_done() const {
  MutexLock lock(&mu_);
  return progress_.points_done;
}

absl::Status UpsertPipeline::WaitUntilHeldBelow(int most) {
  while (true) {
    Progress progress;
    {
      MutexLock lock(&mu_);
      if (!failure_.ok()) return failure_;
      if (held_ < most) return absl::OkStatus();
      changed_.WaitFor(&mu_, kTick);
      progress = progress_;
    }
    // Without the lock: it prints.
    on_progress_(progress);
  }
}

void UpsertPipeline::Work() {
  while (true) {
    v1::UpsertRequest batch;
    {
      MutexLock lock(&mu_);
      while (queue_.empty() && !stopping_) wake_workers_.Wait(&mu_);
      if (stopping_) return;
      batch = std::move(queue_.front());
      queue_.pop_front();
    }
    const absl::Status status = SendWithRetries(batch);
    MutexLock lock(&mu_);
    --held_;
    if (status.ok()) {
      progress_.points_done += batch.points_size();
    } else if (failure_.ok()) {
      failure_ = status;
      stopping_ = true;
      wake_workers_.NotifyAll();
    }
    changed_.NotifyAll();
  }
}

absl::Status UpsertPipeline::SendWithRetries(const v1::UpsertRequest& batch) {
  // Steady: setting the clock must not end or prolong the attempts.
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  std::minstd_rand random(std::random_device{}());
  std::uniform_real_distribution<double> unit(0, 1);
  for (int attempt = 1;; ++attempt) {
    absl::Status status = send_(batch);
    if (status.ok() || !WorthRetrying(status)) return status;
    const absl::Duration delay =
        BackoffAfter(policy_, attempt, status, unit(random));
    const absl::Duration spent = absl::FromChrono(Clock::now() - start);
    if (spent + delay > policy_.give_up_after) {
      return WithMessage(
          status, absl::StrCat(status.message(), "; given up after ", attempt,
                               attempt == 1 ? " attempt" : " attempts", " in ",
                               absl::FormatDuration(
                                   absl::Trunc(spent, absl::Milliseconds(1)))));
    }
    if (!SleepBeforeRetry(status, delay)) return status;
  }
}

bool UpsertPipeline::SleepBeforeRetry(const absl::Status& error,
                                      absl::Duration delay) {
  const auto until =
      std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(delay);
  MutexLock lock(&mu_);
  ++progress_.retries;
  progress_.last_error = std::string(error.message());
  changed_.NotifyAll();
  while (!stopping_) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left <= left.zero()) return true;
    wake_workers_.WaitFor(&mu_, left);
  }
  return false;
}

}  // namespace coterie
