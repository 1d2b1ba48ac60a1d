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
// One under way and one ready to follow it.
constexpr int kHeldByLane = 2;

bool WorthRetrying(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsDeadlineExceeded(status);
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

UpsertPipeline::UpsertPipeline(Options options, Send send,
                               OnProgress on_progress)
    : options_(std::move(options)),
      send_(std::move(send)),
      on_progress_(std::move(on_progress)),
      next_batch_(options_.first_batch),
      lanes_(options_.in_flight) {
  assert(options_.in_flight >= 1);
  progress_.batches_in_order = options_.first_batch;
  workers_.reserve(options_.in_flight);
  for (int lane = 0; lane < options_.in_flight; ++lane) {
    workers_.emplace_back([this, lane] { Work(lane); });
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
  const int lane = static_cast<int>(next_batch_ % options_.in_flight);
  absl::Status status = WaitUntilHeldBelow(lane, kHeldByLane);
  if (!status.ok()) return status;
  v1::RequestId* id = batch.mutable_request_id();
  id->set_client_id(absl::StrCat(options_.client_id, "-", lane));
  id->set_sequence(next_batch_++);
  Progress progress;
  {
    MutexLock lock(&mu_);
    acknowledged_.push_back(false);
    ++lanes_[lane].held;
    lanes_[lane].queue.push_back(std::move(batch));
    // All, as each lane has a worker of its own.
    wake_workers_.NotifyAll();
    progress = progress_;
  }
  // Also if sending never makes this thread wait.
  on_progress_(progress);
  return absl::OkStatus();
}

absl::Status UpsertPipeline::Finish() {
  for (int lane = 0; lane < options_.in_flight; ++lane) {
    absl::Status status = WaitUntilHeldBelow(lane, 1);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

UpsertPipeline::Progress UpsertPipeline::progress() const {
  MutexLock lock(&mu_);
  return progress_;
}

absl::Status UpsertPipeline::WaitUntilHeldBelow(int lane, int most) {
  while (true) {
    Progress progress;
    {
      MutexLock lock(&mu_);
      if (!failure_.ok()) return failure_;
      if (lanes_[lane].held < most) return absl::OkStatus();
      changed_.WaitFor(&mu_, kTick);
      progress = progress_;
    }
    // Without the lock: it prints.
    on_progress_(progress);
  }
}

void UpsertPipeline::Work(int lane) {
  while (true) {
    v1::UpsertRequest batch;
    {
      MutexLock lock(&mu_);
      std::deque<v1::UpsertRequest>& queue = lanes_[lane].queue;
      while (queue.empty() && !stopping_) wake_workers_.Wait(&mu_);
      if (stopping_) return;
      batch = std::move(queue.front());
      queue.pop_front();
    }
    const absl::Status status = SendWithRetries(batch);
    MutexLock lock(&mu_);
    --lanes_[lane].held;
    if (status.ok()) {
      Acknowledge(batch);
    } else if (failure_.ok()) {
      failure_ = status;
      stopping_ = true;
      wake_workers_.NotifyAll();
    }
    changed_.NotifyAll();
  }
}

void UpsertPipeline::Acknowledge(const v1::UpsertRequest& batch) {
  progress_.points_done += batch.points_size();
  acknowledged_[batch.request_id().sequence() - progress_.batches_in_order] =
      true;
  while (!acknowledged_.empty() && acknowledged_.front()) {
    acknowledged_.pop_front();
    ++progress_.batches_in_order;
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
        BackoffAfter(options_.retry, attempt, status, unit(random));
    const absl::Duration spent = absl::FromChrono(Clock::now() - start);
    if (spent + delay > options_.retry.give_up_after) {
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
