#include "shard/work_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/status_details.h"

namespace coterie {
namespace {

constexpr absl::Duration kLeastRetry = absl::Milliseconds(5);
constexpr absl::Duration kMostRetry = absl::Seconds(10);

}  // namespace

WorkQueue::WorkQueue(std::shared_ptr<WorkPool> pool, int32_t capacity)
    : pool_(std::move(pool)), capacity_(capacity) {
  {
    MutexLock lock(&pool_->mutex_);
    for (size_t i = 0; i < lanes_.size(); ++i) {
      lanes_[i].state.work_class = static_cast<WorkClass>(i);
      lanes_[i].state.capacity = capacity;
    }
  }
  pool_->Add(&lanes_);
}

WorkQueue::WorkQueue(int32_t threads, int32_t capacity)
    : WorkQueue(std::make_shared<WorkPool>(threads), capacity) {}

WorkQueue::~WorkQueue() { Stop(); }

double WorkQueue::thread_share() const {
  MutexLock lock(&pool_->mutex_);
  return static_cast<double>(pool_->threads()) /
         static_cast<double>(std::max<size_t>(1, pool_->queues_.size()));
}

QueueState WorkQueue::state(WorkClass work_class) const {
  MutexLock lock(&pool_->mutex_);
  const WorkPool::Lane& lane = lanes_[static_cast<size_t>(work_class)];
  QueueState state = lane.state;
  state.length = static_cast<int32_t>(lane.waiting.size());
  return state;
}

absl::Duration WorkQueue::RetryDelay(const WorkPool::Lane& lane) const {
  const auto queues = static_cast<double>(pool_->queues_.size());
  const auto ahead = static_cast<double>(lane.waiting.size());
  return std::clamp(lane.service * (ahead * queues / pool_->threads()),
                    kLeastRetry, kMostRetry);
}

void WorkQueue::Admit(WorkClass work_class, CallContext call, Work work) {
  absl::Status refusal;
  {
    MutexLock lock(&pool_->mutex_);
    WorkPool::Lane& lane = lanes_[static_cast<size_t>(work_class)];
    if (lane.stopping) {
      refusal = absl::UnavailableError("the shard is stopping");
    } else if (static_cast<int32_t>(lane.waiting.size()) >= capacity_) {
      ++lane.state.refused;
      refusal = Overloaded(
          absl::StrCat("the shard's queue of ", WorkClassName(work_class),
                       " work is full (", capacity_, " waiting)"),
          RetryDelay(lane));
    } else {
      pool_->Admit(&lane, std::move(call), std::move(work));
      return;
    }
  }
  work({refusal, absl::ZeroDuration()});
}

void WorkQueue::ParallelFor(
    WorkClass work_class, int64_t tasks,
    absl::FunctionRef<void(int32_t worker, int64_t task)> body) {
  pool_->ParallelFor(&lanes_[static_cast<size_t>(work_class)], tasks, body);
}

void WorkQueue::Stop() { pool_->Remove(&lanes_); }

}  // namespace coterie
